package events

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed schema/*.json asyncapi.yaml
var files embed.FS

// Schema gives the JSON Schema of a message by its file's name without the
// ending, such as reserve_answer.
func Schema(name string) ([]byte, error) { return files.ReadFile("schema/" + name + ".json") }

// SchemaNames lists every schema, defs included, in byte order.
func SchemaNames() []string {
	entries, err := fs.ReadDir(files, "schema")
	if err != nil { // the folder is part of the program
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

// AsyncAPI gives the AsyncAPI document.
func AsyncAPI() []byte {
	b, err := files.ReadFile("asyncapi.yaml")
	if err != nil { // the file is part of the program
		return nil
	}
	return b
}
