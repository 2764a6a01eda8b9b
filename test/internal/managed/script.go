package managed

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	comment    = regexp.MustCompile(`--.*`)
	scriptCall = regexp.MustCompile(`redis\.p?call\(([^)]*)`)
	literal    = regexp.MustCompile(`^'\w+'$|^"\w+"$`)
	literalKey = regexp.MustCompile(`^KEYS\[\d+\]$`)
)

// read returns the reply to a script that the product refuses when it reads it,
// or "".
func (p Product) read(text string) (reply string) {
	for _, found := range scriptCall.FindAllStringSubmatch(comment.ReplaceAllString(text, ""), -1) {
		args := strings.Split(found[1], ",")
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}
		command := strings.ToLower(strings.Trim(args[0], `'"`))
		for _, r := range p.Rules {
			var refused bool
			switch r.Refuses {
			case ScriptsWith:
				refused = slices.Contains(r.Names, command)
			case ComputedCommands:
				refused = !literal.MatchString(args[0])
			case ComputedKeys:
				refused = slices.ContainsFunc(keys(command, args[1:]), func(key string) bool { return !literalKey.MatchString(key) })
			}
			if refused {
				return r.Reply
			}
		}
	}
	return ""
}

// keys are the arguments of a command that are keys.
func keys(command string, args []string) []string {
	switch command {
	case "time", "publish", "spublish":
		return nil
	case "exists", "del", "unlink":
		return args
	default:
		return args[:min(1, len(args))]
	}
}

// watched is put in front of a script of a product that stops scripts while they
// run. It doesn't begin a new line, so that error replies name the right one.
const watched = `local redis = (function(real) ` +
	`local declared, stops, undeclared = {}, {%s}, %q ` +
	`for _, key in ipairs(KEYS) do declared[key] = true end ` +
	`local keyless, many = {time = true, publish = true, spublish = true}, {exists = true, del = true, unlink = true} ` +
	`local function refusal(command, ...) ` +
	`command = string.lower(command) ` +
	`if stops[command] then return stops[command] end ` +
	`if undeclared ~= '' and not keyless[command] then ` +
	`for i = 1, many[command] and select('#', ...) or 1 do if not declared[select(i, ...)] then return undeclared end end ` +
	`end end ` +
	`local function call(...) local reply = refusal(...) ` +
	`if reply then error(real.REDIS_VERSION_NUM and real.error_reply(reply) or reply, 0) end ` +
	`return real.call(...) end ` +
	`local function pcall(...) local reply = refusal(...) ` +
	`if reply then return real.error_reply(reply) end ` +
	`return real.pcall(...) end ` +
	`return setmetatable({call = call, pcall = pcall}, {__index = real}) end)(redis) `

// watch returns the script as the server behind runs it.
func (p Product) watch(text string) string {
	var stops []string
	var undeclared string
	for _, r := range p.Rules {
		switch r.Refuses {
		case RunningScripts:
			for _, name := range r.Names {
				stops = append(stops, fmt.Sprintf("[%q] = %q", name, r.Reply))
			}
		case UndeclaredKeys:
			undeclared = r.Reply
		}
	}
	if stops == nil && undeclared == "" {
		return text
	}
	return fmt.Sprintf(watched, strings.Join(stops, ", "), undeclared) + text
}

func shaOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}
