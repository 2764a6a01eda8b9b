package rule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redlatch/redlatch/core/key"
)

// Templates of other languages are valid literals, and so one key for all requests.
// Only the number of waiting requests would show it.
var (
	withSign   = regexp.MustCompile(`[$#]\{([A-Za-z_][A-Za-z0-9_.-]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
	inBraces   = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)
	withPrefix = regexp.MustCompile(`(?:^|[:/{]):([A-Za-z_][A-Za-z0-9_]*)|:[@*$]([A-Za-z_][A-Za-z0-9_]*)|(?:^|[:{])#([A-Za-z_][A-Za-z0-9_.]*)`)
	withField  = regexp.MustCompile(`(?:^|[,;&?|])([A-Za-z]+)=`)
	parameter  = regexp.MustCompile(`[:*]([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)`)
)

// lookalike reports a template that seems to name a variable in another way than
// <name>, or to hold a field of the rule: the reason and the column.
func lookalike(template *key.Template, text, operation string) *problem {
	report := func(match []int, constant string) *problem {
		name := ""
		for i := 2; i < len(match) && name == ""; i += 2 {
			if match[i] >= 0 {
				name = text[match[i]:match[i+1]]
			}
		}
		return &problem{field: fieldKey, column: match[0] + 1, reason: fmt.Sprintf(
			"%.300q, column %d: %q is not a variable but a literal, the same for every request; write <%s>%s",
			text, match[0]+1, text[match[0]:match[1]], name, constant)}
	}
	for _, match := range withField.FindAllStringSubmatchIndex(text, -1) {
		name, first := text[match[2]:match[3]], match[2] == 0 // where the string form has no template
		if slices.Contains(optionNames(), name) || first && slices.Contains(names(fields), name) {
			return &problem{field: fieldKey, column: match[0] + 1, reason: fmt.Sprintf(
				"%.300q, column %d: %q is a part of the key and sets no field; in the string form of a rule a space is in front of it", text, match[0]+1, text[match[0]:])}
		}
	}
	if last := len(text) - 1; text[last] == ',' || text[last] == ';' {
		return &problem{field: fieldKey, column: last + 1, reason: fmt.Sprintf(
			"%.300q, column %d: %q is a part of the key: remove it, spaces separate the fields of a rule", text, last+1, text[last:])}
	}
	if match := withSign.FindStringSubmatchIndex(text); match != nil {
		return report(match, "")
	}
	if match := withPrefix.FindStringSubmatchIndex(text); match != nil {
		return report(match, "")
	}
	vars := make(map[string]bool)
	for _, v := range template.Vars() {
		vars[v.Name] = true
	}
	params := parametersOf(operation)
	if match := inBraces.FindStringSubmatchIndex(text); match != nil {
		name := text[match[2]:match[3]]
		if len(vars) == 0 || params[name] && !vars[name] {
			return report(match, ", or leave the braces out if every request is meant to share one key")
		}
	}
	if reason, column := Unbracketed(template, func(name string) bool { return params[name] }); reason != "" {
		return &problem{field: fieldKey, column: column, reason: fmt.Sprintf("%.300q, column %d: %s", text, column, reason)}
	}
	return nil
}

// Unbracketed finds a name without brackets, as in lock:order:userId, in a template
// without variables: the template is one key for all requests. known reports
// whether requests have a value of that name. It returns a reason and a column for
// a message; the reason is empty if there is no such name.
func Unbracketed(template *key.Template, known func(name string) bool) (reason string, column int) {
	if len(template.Vars()) > 0 {
		return "", 0
	}
	text := template.String()
	for start, i := 0, 0; i <= len(text); i++ {
		if i < len(text) && strings.IndexByte(":/{}", text[i]) < 0 {
			continue
		}
		if name := text[start:i]; known(name) {
			return fmt.Sprintf("%q is not a variable but a literal, the same for every request; write <%s>, "+
				"or another word if every request is meant to share one key", name, name), start + 1
		}
		start = i + 1
	}
	return "", 0
}

// parametersOf are the names of the path parameters of an HTTP operation.
func parametersOf(operation string) map[string]bool {
	params := make(map[string]bool)
	_, path, ok := SplitRoute(operation)
	if !ok {
		return params
	}
	for _, match := range parameter.FindAllStringSubmatch(path, -1) {
		params[match[1]+match[2]] = true
	}
	return params
}
