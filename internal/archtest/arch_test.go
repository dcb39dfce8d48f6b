package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Third-party modules, named once.
const (
	natsGo    = "github.com/nats-io/nats.go"
	natsSrv   = "github.com/nats-io/nats-server/v2"
	natsJWT   = "github.com/nats-io/jwt/v2"
	nkeys     = "github.com/nats-io/nkeys"
	atomicPub = "github.com/synadia-io/orbit.go/jetstreamext"
	goRedis   = "github.com/redis/go-redis/v9"
	uuids     = "github.com/google/uuid"
	zerolog   = "github.com/rs/zerolog"
	cobra     = "github.com/spf13/cobra"
	prom      = "github.com/prometheus/client_golang"
	notes     = "golang.org/x/mod/sumdb/note"
	bcrypts   = "golang.org/x/crypto"
	mimetypes = "github.com/gabriel-vasile/mimetype"
	charts    = "github.com/go-analyze/charts"
)

// What the floors share.
var (
	pkgs     = []string{"pkg/redisx", "pkg/events", "pkg/budget", "pkg/client"}
	plumbing = []string{"internal/worker", "internal/ledger", "internal/registry", "internal/topology"}
	roles    = []string{
		"internal/reserver", "internal/settler", "internal/scribe",
		"internal/reaper", "internal/reconciler", "internal/registrar",
	}
	role  = slices.Concat(pkgs, plumbing, []string{zerolog, prom, uuids})
	shell = slices.Concat(role, []string{natsGo, goRedis})

	command = []string{"internal/app", "internal/wiring"}
)

// mayImport is the architecture, floor by floor; arrows point downwards only.
// A row names a package, the packages of this module it may import, and the
// third-party modules it may touch. Tests and test/ are outside the table.
var mayImport = map[string][]string{
	// The scripts and the leaves.
	"lua":        {},
	"pkg/budget": {},
	"pkg/events": {},
	"pkg/redisx": {"lua", "pkg/budget", goRedis, uuids},
	"pkg/client": {"pkg/events", natsGo, uuids},

	// Shared plumbing: NATS yes, Redis never, tokens only in the callout.
	"internal/worker":     {"pkg/events", "pkg/budget", natsGo, atomicPub, zerolog, prom},
	"internal/ledger":     {"pkg/events", "pkg/budget", "internal/topology", natsGo, atomicPub},
	"internal/checkpoint": {"pkg/events", "internal/ledger", notes},
	"internal/registry":   {"pkg/events", "pkg/budget", "internal/topology", natsGo, uuids},
	"internal/evidence":   {"pkg/events", mimetypes},
	"internal/topology":   {"pkg/events", natsGo, natsSrv, natsJWT, nkeys, bcrypts},
	"internal/callout":    {"pkg/events", "internal/registry", "internal/topology", natsGo, natsJWT, nkeys, zerolog, prom},

	// What finance people get: pure, and the only one that draws.
	"internal/money":  {"pkg/budget"},
	"internal/report": {"pkg/events", "pkg/budget", "internal/money", charts, uuids},

	// Roles: one job each, neither NATS nor Redis by name.
	"internal/reserver":   role,
	"internal/settler":    role,
	"internal/scribe":     role,
	"internal/reaper":     role,
	"internal/reconciler": slices.Concat(role, []string{"internal/checkpoint", "internal/report", "internal/evidence"}),
	"internal/registrar":  slices.Concat(role, []string{"internal/callout"}),

	// Shells: what a process needs around its role.
	"internal/app":      slices.Concat(shell, []string{"internal/callout"}),
	"internal/allinone": slices.Concat(shell, []string{"internal/app", "internal/wiring", "internal/checkpoint", natsSrv, natsJWT, nkeys}),
	"internal/cli": slices.Concat(shell, []string{
		"internal/app", "internal/allinone", "internal/bench", "internal/demo", "internal/checkpoint", "internal/money", cobra, natsJWT, nkeys,
	}),
	"internal/demo":  slices.Concat(shell, []string{"internal/app", "internal/allinone", "internal/reconciler"}),
	"internal/bench": slices.Concat(shell, roles, []string{"internal/app", "internal/allinone", "lua"}),

	"internal/wiring": slices.Concat(plumbing, roles, []string{"internal/app", "internal/callout", "internal/checkpoint", "pkg/events"}),

	// Processes: one line of wiring each.
	"cmd/reserver":   command,
	"cmd/settler":    command,
	"cmd/scribe":     command,
	"cmd/reaper":     command,
	"cmd/reconciler": command,
	"cmd/registrar":  command,
	"cmd/tallystick": {"internal/cli", "internal/app"},

	// What a user of the client writes, so it sees what a user sees.
	"examples/pipeline": {"pkg/client", "pkg/events"},

	// For tests alone.
	"internal/testkit":  slices.Concat(shell, []string{natsSrv, natsJWT, nkeys, "go.uber.org/goleak"}),
	"internal/archtest": {},
}

// testOnly modules never ship.
var testOnly = []string{
	"pgregory.net/rapid", "go.uber.org/goleak", "github.com/google/go-cmp",
	"github.com/santhosh-tekuri/jsonschema", "go.yaml.in/yaml",
}

func TestArchitecture(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.test || strings.HasPrefix(f.pkg, "test/") {
			continue
		}
		seen[f.pkg] = true
		allowed, known := mayImport[f.pkg]
		if !known {
			t.Errorf("%s is not in the architecture table; add it on purpose", f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			dep, ours := strings.CutPrefix(path, module)
			if !ours && !strings.Contains(strings.Split(path, "/")[0], ".") {
				continue // the standard library
			}
			if ours && dep == "internal/testkit" {
				t.Errorf("%s ships and must not import %s", f.path, path)
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return within(dep, a, ours) }) {
				t.Errorf("%s must not import %s", f.path, path)
			}
		}
	}
	for pkg := range maps.Keys(mayImport) {
		if !seen[pkg] {
			t.Errorf("%s is in the architecture table but not in the tree", pkg)
		}
	}
}

func within(dep, allowed string, ours bool) bool {
	return dep == allowed || !ours && strings.HasPrefix(dep, allowed+"/")
}

func TestArchitectureTestOnlyModules(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		if f.test || f.pkg == "internal/testkit" || strings.HasPrefix(f.pkg, "test/") {
			continue
		}
		for _, spec := range f.ast.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			if slices.ContainsFunc(testOnly, func(m string) bool { return strings.HasPrefix(path, m) }) {
				t.Errorf("%s ships and must not import %s, which is for tests", f.path, path)
			}
		}
	}
}

// One list of the goroutines that libraries leave behind serves every package.
func TestArchitectureLeaksAreSearchedInOnePlace(t *testing.T) {
	t.Parallel()
	for _, f := range goFiles(t) {
		for _, spec := range f.ast.Imports {
			if f.pkg != "internal/testkit" && strings.Trim(spec.Path.Value, `"`) == "go.uber.org/goleak" {
				t.Errorf("%s must not import goleak: TestMain calls testkit.Main", f.path)
			}
		}
	}
}

// No plumbing or role may reach Redis but through pkg/redisx, whatever the
// table allows by mistake.
func TestArchitectureWhoSeesRedis(t *testing.T) {
	t.Parallel()
	may := []string{
		"pkg/redisx", "internal/app", "internal/testkit", "internal/allinone",
		"internal/bench", "internal/cli", "internal/demo",
	}
	for _, f := range goFiles(t) {
		if f.test || strings.HasPrefix(f.pkg, "test/") || slices.Contains(may, f.pkg) {
			continue
		}
		for _, spec := range f.ast.Imports {
			if strings.Contains(spec.Path.Value, goRedis) {
				t.Errorf("%s must not import go-redis: only pkg/redisx speaks to Redis", f.path)
			}
		}
	}
}
