package redisx

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	"encoding/hex"
	"fmt"
	"io/fs"
	"sort"
	"strings"

	"tallystick/lua"
)

// script is an expanded script and the name Redis gives it.
type script struct {
	name, source, sha string
}

const includeDirective = "--include "

// loadScripts expands every script of package lua. clock, when not empty, is
// a Redis key from which tests let the scripts read the time, in µs; it
// replaces the include file now.lua, never an argument.
func loadScripts(clock string) (map[string]*script, error) {
	names, err := fs.Glob(lua.Files, "*.lua")
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	scripts := make(map[string]*script, len(names))
	for _, file := range names {
		source, err := expand(file, clock)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
		name := strings.TrimSuffix(file, ".lua")
		scripts[name] = &script{name: name, source: source, sha: hex.EncodeToString(sum[:])}
	}
	return scripts, nil
}

// expand replaces each include line by the file it names. An include may be
// named once and includes nothing itself: one level, so nothing can cycle.
func expand(file, clock string) (string, error) {
	text, err := lua.Files.ReadFile(file)
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	var out strings.Builder
	for number, line := range strings.SplitAfter(string(text), "\n") {
		name, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), includeDirective)
		if !ok {
			out.WriteString(line)
			continue
		}
		if seen[name] {
			return "", fmt.Errorf("line %d: %s is included twice", number+1, name)
		}
		seen[name] = true
		body, err := include(name, clock)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", number+1, err)
		}
		out.WriteString(body)
	}
	return out.String(), nil
}

func include(name, clock string) (string, error) {
	if name == "now" && clock != "" {
		return fmt.Sprintf(testClock, clock), nil
	}
	body, err := lua.Files.ReadFile("include/" + name + ".lua")
	if err != nil {
		return "", err
	}
	if strings.Contains(string(body), includeDirective) {
		return "", fmt.Errorf("include %s includes something itself", name)
	}
	return string(body), nil
}

// testClock stands in for include/now.lua where a test sets the time.
const testClock = `local function now()
  local us = redis.call('GET', '%s')
  return tonumber(string.sub(us, 1, -4)), string.sub(us, 1, -7) .. ' ' .. tonumber(string.sub(us, -6))
end
`
