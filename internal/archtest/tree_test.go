package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	module = "tallystick/"
	root   = "../.."
)

// goFile is one parsed source of the module.
type goFile struct {
	path string // slash-separated, from the root
	pkg  string // its directory, from the root
	test bool
	text string
	ast  *ast.File
	fset *token.FileSet
}

func (f goFile) lines() int { return strings.Count(f.text, "\n") }

func (f goFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// text is any tracked text of the project.
type text struct{ path, body string }

// tree reads the project once for all tests.
var tree = sync.OnceValues(func() ([]goFile, error) {
	var files []goFile
	for _, t := range texts(".go") {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, t.path, t.body, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, goFile{
			path: t.path, pkg: filepath.ToSlash(filepath.Dir(t.path)),
			test: strings.HasSuffix(t.path, "_test.go"), text: t.body, ast: parsed, fset: fset,
		})
	}
	return files, nil
})

func goFiles(t *testing.T) []goFile {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(files))
	}
	return files
}

// texts reads every file with one of the suffixes, outside build results.
func texts(suffixes ...string) []text {
	var found []text
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == ".git" || rel == "bin" || strings.HasPrefix(rel, "data") {
				return fs.SkipDir
			}
			return nil
		}
		for _, s := range suffixes {
			if strings.HasSuffix(rel, s) || filepath.Base(rel) == s {
				body, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				found = append(found, text{rel, string(body)})
				break
			}
		}
		return nil
	})
	return found
}
