package lockgen

import (
	"go/ast"
	"go/build/constraint"
	"slices"
	"strings"
)

// buildLine is the constraint under which an output is built: that of its
// source, which may be in the source's name. "" means always.
func buildLine(name string, file *ast.File) string {
	var parts []constraint.Expr
	for _, tag := range nameTags(name) {
		parts = append(parts, &constraint.TagExpr{Tag: tag})
	}
	var lines, old []constraint.Expr // old are "// +build" lines, which count if there is no other
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			x, err := constraint.Parse(c.Text)
			switch {
			case err != nil:
			case constraint.IsGoBuild(c.Text):
				lines = append(lines, x)
			case group != file.Doc: // a "// +build" line needs a blank one between it and the package clause
				old = append(old, x)
			}
		}
	}
	if len(lines) == 0 {
		lines = old
	}
	parts = append(parts, lines...)
	if len(parts) == 0 {
		return ""
	}
	all := parts[0]
	for _, x := range parts[1:] {
		all = &constraint.AndExpr{X: all, Y: x}
	}
	return "//go:build " + all.String()
}

// nameTags are the tags that a file's name asks for: name_linux_arm64_test.go.
// The output's name ends otherwise, so it has to say them aloud. The go command reads
// a name up to its first dot.
func nameTags(name string) []string {
	name, _, _ = strings.Cut(name, ".")
	parts := strings.Split(strings.TrimSuffix(name, "_test"), "_")[1:] // what is in front of the first _ does not count
	n := len(parts)
	switch {
	case n >= 2 && slices.Contains(systems, parts[n-2]) && slices.Contains(machines, parts[n-1]):
		return parts[n-2:]
	case n >= 1 && (slices.Contains(systems, parts[n-1]) || slices.Contains(machines, parts[n-1])):
		return parts[n-1:]
	}
	return nil
}

// The names that the go command knows.
var (
	systems = strings.Fields(`aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9
		solaris wasip1 windows zos`)
	machines = strings.Fields(`386 amd64 amd64p32 arm arm64 arm64be armbe loong64 mips mips64 mips64le mips64p32
		mips64p32le mipsle ppc ppc64 ppc64le riscv riscv64 s390 s390x sparc sparc64 wasm`)
)
