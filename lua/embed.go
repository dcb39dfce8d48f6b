// Package lua holds the scripts that decide and move money. Each verb is one
// file; include/ holds one local function per file. pkg/redisx expands the
// includes and runs them; nothing else does.
package lua

import "embed"

// Files are the scripts as they are in this folder.
//
//go:embed *.lua include/*.lua
var Files embed.FS
