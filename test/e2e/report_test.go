package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fetched is a report as `report get` writes it.
func (s *system) fetched(org, id, format string) string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "report."+format)
	if _, code, text := command(s.TB, s.env, "report", "get", id, "--org", org, "--format", format, "--file", file); code != 0 {
		s.Fatalf("report get: exit %d: %s", code, text)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	return string(b)
}

// TestReports: a report says what balance says, in every format, and is nobody
// else's.
func TestReports(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, foreign := s.org(), s.org()
	s.pool(org, "p", 10_000)
	s.pool(foreign, "p", 10_000)
	a := s.agent(org, "p")
	for i := range 5 {
		key := fmt.Sprint("k", i)
		a.tells("allowed", "reserve", key, reserve(100))
		if i < 3 {
			a.tells("settled", "settle", "s"+key, object{"key": key, "status": "success", "actual": usd(80)})
		}
	}
	equal(t, "balance", a.figures(), "held 200 spent 240 withheld 0")
	s.lawful(org)
	var id string
	s.eventually("the ledger has it all", 20*time.Second, func() error {
		made := s.must("report", "make", "--org", org)["report"].(object)
		id = made["report"].(string)
		var doc struct {
			Totals []struct{ Spent, Reserved, Returned, Held int64 }
			Limits []struct{ Cap, Spent, Held int64 }
		}
		if err := json.Unmarshal([]byte(s.fetched(org, id, "json")), &doc); err != nil {
			return err
		}
		if got := fmt.Sprint(doc.Totals, doc.Limits); got != "[{240 500 60 200}] [{10000 240 200}]" {
			return fmt.Errorf("the report says %s", got)
		}
		return nil
	})
	rows, err := csv.NewReader(strings.NewReader(s.fetched(org, id, "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	spent := map[string]int64{}
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			if n, err := strconv.ParseInt(row[i], 10, 64); name == "spent" && err == nil {
				spent[row[0]] += n
			}
		}
	}
	for _, dimension := range []string{"total", "pool", "agent", "principal", "target", "kind", "day", "limit"} {
		if spent[dimension] != 240 {
			t.Errorf("by %s: %d", dimension, spent[dimension])
		}
	}
	if page := s.fetched(org, id, "html"); !strings.Contains(page, "<svg") || strings.Contains(page, "http:") || !strings.Contains(page, "Spend against cap: p") {
		t.Error("the page lacks plots, or asks for more")
	}
	listed := fmt.Sprint(s.must("report", "list", "--org", org))
	if !strings.Contains(listed, id) {
		t.Errorf("%s is not listed: %s", id, listed)
	}
	if other := s.must("report", "list", "--org", foreign)["reports"].([]any); len(other) != 0 {
		t.Errorf("another org has %v", other)
	}
	for _, args := range [][]string{
		{"report", "get", id, "--org", foreign}, {"report", "get", "none", "--org", org}, {"report", "list", "--org", "nobody"}, {"report", "make", "--org", "nobody"},
	} {
		if doc, code, text := s.run(args...); code != 5 && told(doc) != "not_found" {
			t.Errorf("%v: exit %d: %s", args, code, text)
		}
	}
}
