package model

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Interpreter runs scripts on a keyspace. It is not safe for concurrent use.
type Interpreter struct {
	state    *lua.LState
	compiled map[string]*lua.FunctionProto // by text; outlives Flush, which is about what clients see
	known    map[string]string             // text by SHA-1
	keyspace *Keyspace                     // of the script that runs
	visits   *visits                       // of the same
}

// NewInterpreter returns an interpreter that knows no scripts.
func NewInterpreter() *Interpreter {
	i := &Interpreter{compiled: make(map[string]*lua.FunctionProto), known: make(map[string]string), visits: new(visits)}
	i.state = lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
		lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		i.state.Push(i.state.NewFunction(open))
		i.state.Push(lua.LString(name))
		i.state.Call(1, 0)
	}
	redis := i.state.NewTable()
	i.state.SetFuncs(redis, map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return i.call(l, true) },
		"pcall":        func(l *lua.LState) int { return i.call(l, false) },
		"error_reply":  func(l *lua.LState) int { return tagged(l, "err") },
		"status_reply": func(l *lua.LState) int { return tagged(l, "ok") },
		"sha1hex": func(l *lua.LState) int {
			l.Push(lua.LString(SHA(l.CheckString(1))))
			return 1
		},
	})
	i.state.SetGlobal("redis", redis)
	i.protect()
	return i
}

// Close frees the interpreter.
func (i *Interpreter) Close() { i.state.Close() }

// protect refuses globals, as Redis does.
func (i *Interpreter) protect() {
	guard := i.state.NewTable()
	refuse := func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.ToString(2))
		return 0
	}
	guard.RawSetString("__newindex", i.state.NewFunction(refuse))
	guard.RawSetString("__index", i.state.NewFunction(refuse))
	globals := i.state.Get(lua.GlobalsIndex)
	globals.(*lua.LTable).RawSetString("KEYS", i.state.NewTable())
	i.state.SetMetatable(globals, guard)
}

// SHA is the name of a script.
func SHA(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// Load makes a script known by its SHA-1.
func (i *Interpreter) Load(text string) (sha string) {
	sha = SHA(text)
	i.known[sha] = text
	return sha
}

// Text returns a known script.
func (i *Interpreter) Text(sha string) (text string, ok bool) {
	text, ok = i.known[strings.ToLower(sha)]
	return text, ok
}

// Flush forgets all scripts.
func (i *Interpreter) Flush() { clear(i.known) }

// Run runs a script.
func (i *Interpreter) Run(k *Keyspace, text string, keys, args []string) Reply {
	proto, err := i.compile(text)
	if err != nil {
		return Error("ERR Error compiling script (new function): " + err.Error())
	}
	globals := i.state.Get(lua.GlobalsIndex).(*lua.LTable)
	globals.RawSetString("KEYS", i.strings(keys))
	globals.RawSetString("ARGV", i.strings(args))
	i.keyspace, i.visits = k, &visits{keys: keys, removed: make(map[string]bool)}
	top := i.state.GetTop()
	defer i.state.SetTop(top)
	i.state.Push(i.state.NewFunctionFromProto(proto))
	if err := i.state.PCall(0, 1, nil); err != nil {
		return failed(err)
	}
	return replyOf(i.state.Get(-1))
}

func (i *Interpreter) compile(text string) (*lua.FunctionProto, error) {
	if proto := i.compiled[text]; proto != nil {
		return proto, nil
	}
	chunk, err := parse.Parse(strings.NewReader(text), "@user_script")
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(chunk, "@user_script")
	if err == nil {
		i.compiled[text] = proto
	}
	return proto, err
}

func (i *Interpreter) strings(values []string) *lua.LTable {
	table := i.state.CreateTable(len(values), 0)
	for _, value := range values {
		table.Append(lua.LString(value))
	}
	return table
}

// failed is the reply to a script that ended with an error.
func failed(err error) Reply {
	var raised *lua.ApiError
	if errors.As(err, &raised) {
		if table, ok := raised.Object.(*lua.LTable); ok {
			return Error(lua.LVAsString(table.RawGetString("err")))
		}
		return Error("ERR " + raised.Object.String())
	}
	return Error("ERR " + err.Error())
}

// call is redis.call, which raises errors, and redis.pcall, which returns them.
func (i *Interpreter) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for n := range args {
		switch v := l.Get(n + 1).(type) {
		case lua.LString:
			args[n] = string(v)
		case lua.LNumber:
			args[n] = number(float64(v))
		default:
			l.Error(i.tag("err", "ERR Lua redis lib command arguments must be strings or integers"), 1)
		}
	}
	if len(args) == 0 {
		l.Error(i.tag("err", "ERR Please specify at least one argument for this redis.call() call"), 1)
	}
	reply := i.visits.do(i.keyspace, args)
	if text, wrong := reply.(Error); wrong && raise {
		l.Error(i.tag("err", string(text)), 1)
	}
	l.Push(i.value(reply))
	return 1
}

// number writes a number as Redis hands it to a command.
func number(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<62 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}

func tagged(l *lua.LState, name string) int {
	table := l.NewTable()
	table.RawSetString(name, lua.LString(l.CheckString(1)))
	l.Push(table)
	return 1
}

func (i *Interpreter) tag(name, text string) *lua.LTable {
	table := i.state.NewTable()
	table.RawSetString(name, lua.LString(text))
	return table
}

// value turns a reply into what Lua sees.
func (i *Interpreter) value(r Reply) lua.LValue {
	switch r := r.(type) {
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case Status:
		return i.tag("ok", string(r))
	case Error:
		return i.tag("err", string(r))
	case []Reply:
		table := i.state.CreateTable(len(r), 0)
		for n, element := range r {
			table.RawSetInt(n+1, i.value(element))
		}
		return table
	default:
		return lua.LFalse
	}
}

// replyOf turns what a script returns into a reply.
func replyOf(v lua.LValue) Reply {
	switch v := v.(type) {
	case lua.LNumber:
		return int64(v)
	case lua.LString:
		return string(v)
	case lua.LBool:
		if v {
			return int64(1)
		}
		return nil
	case *lua.LTable:
		if text, ok := v.RawGetString("err").(lua.LString); ok {
			return Error(text)
		}
		if text, ok := v.RawGetString("ok").(lua.LString); ok {
			return Status(text)
		}
		all := []Reply{}
		for n := 1; v.RawGetInt(n) != lua.LNil; n++ {
			all = append(all, replyOf(v.RawGetInt(n)))
		}
		return all
	default:
		return nil
	}
}
