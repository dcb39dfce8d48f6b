package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/pkg/client"
	"tallystick/pkg/events"
)

// document writes a file into a folder of the test.
func document(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pdf is a PDF of size bytes that has random content.
func pdf(size int) []byte {
	b := append(make([]byte, 0, size), "%PDF-1.7\n"...)
	random := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32d", rand.Uint32()))))
	b = b[:size-6]
	_, _ = random.Read(b[9:])
	return append(b, "%%EOF\n"...)
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// TestEvidence: a file goes in and comes back as it was, its hash is on the
// ledger, and nobody else's org knows of it.
func TestEvidence(t *testing.T) {
	t.Parallel()
	s := start(t)
	org, foreign := s.org(), s.org()
	content := pdf(3 << 20)
	id, file := sum(content), document(t, "invoice.pdf", content)
	describes := func(what string, doc object, more object) {
		t.Helper()
		want := object{"evidence": id, "name": "invoice.pdf", "type": "application/pdf", "size": float64(3 << 20)}
		for k, v := range more {
			want[k] = v
		}
		for k, v := range want {
			if doc[k] != v {
				t.Errorf("%s: %s is %v, want %v", what, k, doc[k], v)
			}
		}
	}
	put := []string{"ledger", "evidence", "put", "--org", org, "--reason", "dispute 7", file}
	describes("put", s.must(put...), object{"outcome": "stored", "fresh": true})
	describes("put again", s.must(put...), object{"outcome": "stored", "fresh": false})

	out := filepath.Join(t.TempDir(), "copy")
	get := []string{"ledger", "evidence", "get", "--org", org, "--id", id, "--file", out}
	describes("get", s.must(get...), nil)
	if back, err := os.ReadFile(out); err != nil || !bytes.Equal(back, content) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
	line{1, "", strings.Join(get, " ")}.check(t, s.run) // it overwrites nothing
	rows := s.must("ledger", "evidence", "list", "--org", org)["evidence"].([]any)
	if len(rows) != 1 {
		t.Fatalf("list: %v", rows)
	}
	describes("list", rows[0].(object), nil)

	for _, role := range []string{"viewer", "auditor", "admin"} {
		a := s.admin(org, role, role)
		doc, code, text := a.run("ledger", "evidence", "list", "--org", org)
		if rows, _ := doc["evidence"].([]any); code != 0 || len(rows) != 1 {
			t.Errorf("list as %s: exit %d: %s", role, code, text)
		}
		line{6, "", "ledger evidence put --org " + org + " " + file}.check(t, a.run)
	}
	stranger := s.admin(foreign, "x", "admin")
	never := strings.Repeat("0", 64)
	for _, run := range []func(...string) (object, int, string){s.run, stranger.run} {
		sameWords(t, run, []string{"ledger", "evidence", "get", "--org", foreign, "--file", out + "2", "--id", id, never})
		line{3, "not_found", "ledger evidence get --file x --org nowhere --id " + id}.check(t, run)
	}
	line{3, "not_found", "ledger evidence get --file x --org " + org + " --id " + id}.check(t, stranger.run)

	s.eventually("one entry", 10*time.Second, func() error {
		var found []string
		for _, e := range s.entries(org) {
			if e.Action == "evidence_put" {
				found = append(found, strings.Join([]string{e.Kind, e.Subject, e.By, e.Why}, " "))
			}
		}
		if len(found) != 1 || found[0] != "administered "+id+" operator dispute 7" {
			return fmt.Errorf("%v", found)
		}
		return nil
	})
	s.lawful(org)
}

// testEvidence: the reconciler's rights suffice, under the written nats.conf.
func (p *apart) testEvidence() {
	org, content := p.org(), pdf(600<<10)
	p.must("ledger", "evidence", "put", "--org", org, document(p.TB, "invoice.pdf", content))
	p.must("ledger", "evidence", "get", "--org", org, "--id", sum(content), "--file", filepath.Join(p.TempDir(), "copy"))
	p.must("ledger", "evidence", "list", "--org", org)
}

// TestEvidenceRefused: what a file is decides, not what it is called.
func TestEvidenceRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	page := []byte("<!DOCTYPE html><html><script>alert(1)</script></html>")
	put := "ledger evidence put --org " + org + " "
	for _, l := range []line{
		{2, "invalid_argument", put + document(t, "invoice.pdf", page)},
		{2, "invalid_argument", put + document(t, "table.csv", page)},
		{2, "invalid_argument", put + document(t, "picture.png", pdf(5000))},
		{2, "invalid_argument", put + document(t, "invoice.pdf.exe", pdf(5000))},
		{2, "invalid_argument", put + document(t, "program.pdf", append([]byte("MZ\x90\x00"), pdf(5000)...))},
		{2, "invalid_argument", put + document(t, "empty.txt", nil)},
		{2, "payload_too_large", put + document(t, "large.pdf", pdf(10<<20+1))},
		{2, "invalid_argument", put + "--name ../x.pdf " + document(t, "a", pdf(5000))},
		{3, "not_found", "ledger evidence put --org nowhere " + document(t, "a.pdf", pdf(5000))},
		{2, "", "ledger evidence put --org " + org},
		{2, "invalid_argument", "ledger evidence get --file x --org " + org + " --id invoice"},
	} {
		l.check(t, s.run)
	}
	if rows := s.must("ledger", "evidence", "list", "--org", org)["evidence"].([]any); len(rows) != 0 {
		t.Errorf("what was refused is there: %v", rows)
	}
	most := document(t, "most.pdf", pdf(10<<20))
	if doc := s.must("ledger", "evidence", "put", "--org", org, most); doc["size"] != float64(10<<20) {
		t.Errorf("10 MiB: %v", doc)
	}
	if doc := s.must("ledger", "evidence", "put", "--org", org, "--name", "notes.txt", document(t, "x", []byte("paid twice"))); doc["type"] != "text/plain" || doc["name"] != "notes.txt" {
		t.Errorf("text: %v", doc)
	}
}

// TestEvidenceInterrupted: an upload that breaks off, or is killed with the
// system, leaves nothing under the id, and the next one is whole.
func TestEvidenceInterrupted(t *testing.T) {
	t.Parallel()
	s := start(t)
	org := s.org()
	content := pdf(2 << 20)
	id := sum(content)
	op, err := client.ConnectOperator(s.address.NATS, s.address.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	for part := range int64(3) {
		q := events.EvidencePut{Org: org, Evidence: id, Part: part, Parts: 4, Data: content[part*events.EvidencePartBytes : (part+1)*events.EvidencePartBytes]}
		if body, err := op.Do(t.Context(), events.AdminEvidencePut, "", q); err != nil || !strings.Contains(string(body), `"partial"`) {
			t.Fatalf("part %d: %s, %v", part, body, err)
		}
	}
	line{3, "not_found", "ledger evidence get --file x --org " + org + " --id " + id}.check(t, s.run)
	s.signal(9)
	s.up()
	line{3, "not_found", "ledger evidence get --file x --org " + org + " --id " + id}.check(t, s.run)
	if doc := s.must("ledger", "evidence", "put", "--org", org, document(t, "a.pdf", content)); doc["fresh"] != true || doc["evidence"] != id {
		t.Errorf("put: %v", doc)
	}
	out := filepath.Join(t.TempDir(), "copy")
	s.must("ledger", "evidence", "get", "--org", org, "--id", id, "--file", out)
	if back, err := os.ReadFile(out); err != nil || !bytes.Equal(back, content) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
}
