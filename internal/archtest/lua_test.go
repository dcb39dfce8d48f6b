package archtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// writeMark parts a script: checks above, writes below.
const writeMark = "-- writes"

var (
	writes = regexp.MustCompile(`(?:redis\.)?call\('(SET|SETEX|DEL|UNLINK|HSET|HDEL|HINCRBY|INCRBY|INCR|ZADD|ZREM|SADD|SREM|XADD|XTRIM|XSETID|APPEND|PEXPIRE|EXPIRE|PERSIST|HSETNX|LPUSH|RPUSH)'`)
	// Includes that write.
	writers = regexp.MustCompile(`\b(move|finish)\(`)
	// Answers that say nothing was executed.
	refusals = regexp.MustCompile(`return \{'(unavailable|stale|invalid|absent|known|keys|unit_unknown|attempts)'`)
	calls    = regexp.MustCompile(`\bcall\('`)
	naming   = regexp.MustCompile(`\b(KEYS|ARGV)\[`)
	include  = regexp.MustCompile(`(?m)^--include (\w+)$`)
)

func luaFiles(t *testing.T) (scripts, includes []text) {
	t.Helper()
	for _, f := range texts(".lua") {
		switch {
		case strings.HasPrefix(f.path, "lua/include/"):
			includes = append(includes, f)
		case strings.HasPrefix(f.path, "lua/"):
			scripts = append(scripts, f)
		}
	}
	if len(scripts) < 9 || len(includes) == 0 {
		t.Fatalf("%d scripts and %d includes found: the walk is wrong", len(scripts), len(includes))
	}
	return scripts, includes
}

func TestTidyScripts(t *testing.T) {
	t.Parallel()
	scripts, _ := luaFiles(t)
	for _, f := range scripts {
		verb := strings.TrimSuffix(filepath.Base(f.path), ".lua")
		if n := strings.Count(f.body, "\n"); n > luaLinesMax {
			t.Errorf("%s has %d lines; move a function to lua/include (at most %d)", f.path, n, luaLinesMax)
		}
		if !strings.HasPrefix(f.body, "#!lua") {
			t.Errorf("%s must begin with #!lua, or a cluster does not refuse undeclared keys", f.path)
		}
		parts := []string{"-- " + verb + ":", "KEYS[1", "Outcomes"}
		if strings.Contains(f.body, "ARGV[1]") {
			parts = append(parts, "ARGV[1")
		}
		for _, part := range parts {
			if !strings.Contains(head(f.body), part) {
				t.Errorf("%s: its header has no %q", f.path, part)
			}
		}
		checkNaming(t, f)
		checkWrites(t, f)
	}
}

// head is the comment a script opens with.
func head(body string) string {
	_, rest, _ := strings.Cut(body, "\n")
	end := strings.Index("\n"+rest, "\nlocal ")
	if end < 0 {
		return rest
	}
	return rest[:end]
}

// checkNaming: below the block that names keys and arguments nothing speaks
// of them by number.
func checkNaming(t *testing.T, f text) {
	t.Helper()
	below := false
	for i, line := range strings.Split(f.body, "\n") {
		if strings.HasPrefix(line, "--include ") || calls.MatchString(line) {
			below = true
		}
		if below && naming.MatchString(line) {
			t.Errorf("%s:%d: name the key or argument in the block above", f.path, i+1)
		}
	}
}

func checkWrites(t *testing.T, f text) {
	t.Helper()
	readOnly := strings.HasPrefix(f.body, "#!lua flags=no-writes")
	lines := strings.Split(f.body, "\n")
	mark := slices.Index(lines, writeMark)
	if readOnly != (mark < 0) {
		t.Errorf("%s: a script has either flags=no-writes or one line %q", f.path, writeMark)
		return
	}
	for i, line := range lines {
		below := mark >= 0 && i > mark
		if !below && (writes.MatchString(line) || writers.MatchString(line) && !strings.HasPrefix(line, "--")) {
			t.Errorf("%s:%d: a write above the mark: a script that fails midway keeps it", f.path, i+1)
		}
		if below && refusals.MatchString(line) {
			t.Errorf("%s:%d: a refusal below the mark: check first, then write", f.path, i+1)
		}
	}
}

func TestTidyIncludes(t *testing.T) {
	t.Parallel()
	scripts, includes := luaFiles(t)
	used := map[string]bool{}
	for _, f := range slices.Concat(scripts, includes) {
		for _, m := range include.FindAllStringSubmatch(f.body, -1) {
			used[m[1]] = true
		}
	}
	for _, f := range includes {
		name := strings.TrimSuffix(filepath.Base(f.path), ".lua")
		if !used[name] {
			t.Errorf("%s: nothing includes it", f.path)
		}
		if !strings.HasPrefix(f.body, "-- "+name+":") {
			t.Errorf("%s must begin with %q and what it does", f.path, "-- "+name+":")
		}
		if n := strings.Count(f.body, "local function "); n != 1 || !strings.Contains(f.body, "local function "+name+"(") {
			t.Errorf("%s must define the one local function %s", f.path, name)
		}
		if naming.MatchString(f.body) {
			t.Errorf("%s: an include uses its parameters, never KEYS or ARGV", f.path)
		}
	}
}
