package archtest

import (
	"encoding/json"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reference is how the documents point at code: `file.go` — `Type.Symbol`.
var reference = regexp.MustCompile("`((?:[\\w.-]+/)*[\\w.-]+\\.(?:go|lua))`(?: — `([\\w.]+)`)?")

// Documents point at symbols, never at lines, and what they point at exists.
func TestTidyDocumentsReferToWhatExists(t *testing.T) {
	t.Parallel()
	names := symbols(goFiles(t))
	for _, f := range texts(".md") {
		for _, m := range reference.FindAllStringSubmatch(f.body, -1) {
			file, symbol := m[1], m[2]
			if !strings.Contains(file, "/") {
				continue // a bare file name is prose
			}
			beside := filepath.Join(root, filepath.Dir(f.path), file)
			if _, err := os.Stat(beside); err == nil && !strings.HasPrefix(beside, filepath.Join(root, file)) {
				continue // relative to the document, as in its own folder
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s names %s, which is not there", f.path, file)
				continue
			}
			if symbol != "" && strings.HasSuffix(file, ".go") && !slices.Contains(names[file], symbol) {
				t.Errorf("%s names %s — %s, which is not there", f.path, file, symbol)
			}
		}
	}
	arch, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(reference.FindAllString(string(arch), -1)); n < 4 {
		t.Errorf("ARCHITECTURE.md refers to %d files; the path of one reserve has four hops", n)
	}
}

// symbols are the top-level names of each file; methods as Type.Method.
func symbols(files []goFile) map[string][]string {
	names := map[string][]string{}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil && len(d.Recv.List) == 1 {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				names[f.path] = append(names[f.path], name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[f.path] = append(names[f.path], s.Name.Name)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							names[f.path] = append(names[f.path], id.Name)
						}
					}
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// Every schema is JSON, is in the AsyncAPI document, and has a sample that
// passes and one that does not.
func TestTidySchemas(t *testing.T) {
	t.Parallel()
	async, err := os.ReadFile(filepath.Join(root, "pkg/events/asyncapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	samples := texts(".json")
	schemas := 0
	for _, f := range samples {
		name, ok := strings.CutPrefix(f.path, "pkg/events/schema/")
		if !ok {
			continue
		}
		schemas++
		if !json.Valid([]byte(f.body)) {
			t.Errorf("%s is no JSON", f.path)
		}
		inAnother := slices.ContainsFunc(samples, func(o text) bool {
			return o.path != f.path && strings.Contains(o.body, `"`+name)
		})
		if !strings.Contains(string(async), name) && !inAnother {
			t.Errorf("%s is referred to by no channel of asyncapi.yaml and by no schema", f.path)
		}
	}
	if schemas < 10 {
		t.Errorf("only %d schemas found", schemas)
	}
}
