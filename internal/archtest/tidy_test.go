package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Size limits: what does not fit is two things.
const (
	fileLinesMax = 400
	funcLinesMax = 70
	mainLinesMax = 60
	luaLinesMax  = 120
)

func TestTidySizes(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if n := f.lines(); n > fileLinesMax {
			t.Errorf("%s has %d lines; split it by topic (at most %d)", f.path, n, fileLinesMax)
		}
		if strings.HasPrefix(f.path, "cmd/") && strings.HasSuffix(f.path, "/main.go") && f.lines() > mainLinesMax {
			t.Errorf("%s has %d lines; move logic to internal/ (at most %d)", f.path, f.lines(), mainLinesMax)
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				n := f.line(fn.End()) - f.line(fn.Pos()) + 1
				if f.test {
					n -= tableLines(f, fn)
				}
				if n > funcLinesMax {
					t.Errorf("%s: %s has %d lines; name its parts (at most %d)", f.path, fn.Name.Name, n, funcLinesMax)
				}
			}
		}
	}
}

// tableLines is how much of a test is its table of cases, which is data.
func tableLines(f goFile, fn *ast.FuncDecl) int {
	most := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		if table, ok := n.(*ast.CompositeLit); ok {
			most = max(most, f.line(table.End())-f.line(table.Pos()))
		}
		return true
	})
	return most
}

func TestTidyPackages(t *testing.T) {
	t.Parallel()
	banned := []string{"util", "utils", "common", "helper", "helpers", "types", "models", "mock", "mocks"}
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		if slices.Contains(banned, f.ast.Name.Name) {
			t.Errorf("%s: a package named %s says nothing; name it after what it does", f.path, f.ast.Name.Name)
		}
		if f.test && !strings.HasPrefix(f.pkg, "test/") {
			continue
		}
		if doc := f.ast.Doc; doc != nil && (strings.HasPrefix(doc.Text(), "Package ") || strings.HasPrefix(doc.Text(), "Command ")) {
			documented[f.pkg] = true
		} else if !documented[f.pkg] {
			documented[f.pkg] = false
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("%s has no doc comment that begins with Package or Command", pkg)
		}
	}
}

// ban is a call that is written only in the named places.
type ban struct {
	pkg, name string
	tests     bool // tests included
	places    []string
	instead   string
}

// bans: cmd/ may end the process; the command line may print through its
// writers only.
var bans = []ban{
	{"time", "Sleep", true, nil, "wait for a signal, or a condition with a ticker and a deadline"},
	{"os", "Exit", false, []string{"cmd/", "examples/"}, "return an error; only main ends the process"},
	{"log", "Fatal", true, nil, "return an error"},
	{"log", "Fatalf", true, nil, "return an error"},
	{"log", "Panic", true, nil, "return an error"},
	{"fmt", "Print", false, nil, "write to an io.Writer that was passed in"},
	{"fmt", "Printf", false, nil, "write to an io.Writer that was passed in"},
	{"fmt", "Println", false, nil, "write to an io.Writer that was passed in"},
	{"context", "TODO", true, nil, "pass a context in"},
}

// clockless packages take time as an argument or from Redis.
var clockless = []string{"pkg/budget", "pkg/events"}

func TestTidyCalls(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" && !f.test {
				t.Errorf("%s:%d: no panic: return an error", f.path, f.line(n.Pos()))
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if from, ok := sel.X.(*ast.Ident); ok {
				checkCall(t, f, n, from.Name, sel.Sel.Name)
			}
			return true
		})
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: no init functions: wire in main", f.path)
			}
		}
	}
}

func checkCall(t *testing.T, f goFile, n ast.Node, from, name string) {
	t.Helper()
	for _, b := range bans {
		if from != b.pkg || name != b.name || f.test && !b.tests {
			continue
		}
		if !slices.ContainsFunc(b.places, func(p string) bool { return strings.HasPrefix(f.path, p) }) {
			t.Errorf("%s:%d: no %s.%s: %s", f.path, f.line(n.Pos()), from, name, b.instead)
		}
	}
	if from == "time" && name == "Now" && !f.test && slices.Contains(clockless, f.pkg) {
		t.Errorf("%s:%d: %s has no clock of its own: take the time as an argument", f.path, f.line(n.Pos()), f.pkg)
	}
}

// Words that must not land: marks of unfinished work, and paths of one machine.
func TestTidyWords(t *testing.T) {
	t.Parallel()
	unfinished, machines := "FIX"+"ME", []string{"/wo" + "rk/", "/ro" + "ot/", "/tmp/sp" + "ec", "SP" + "EC.md"}
	for _, f := range texts(".go", ".lua", ".md", ".json", ".yaml", ".yml", "Makefile", "run", ".service", ".conf") {
		for i, line := range strings.Split(f.body, "\n") {
			if strings.Contains(line, unfinished) {
				t.Errorf("%s:%d: %s: finish it or write an issue", f.path, i+1, unfinished)
			}
			for _, m := range machines {
				if strings.Contains(line, m) {
					t.Errorf("%s:%d: %q is a path of one machine", f.path, i+1, m)
				}
			}
		}
	}
}
