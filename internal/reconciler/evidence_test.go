package reconciler_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"tallystick/internal/ledger"
	"tallystick/internal/reconciler"
	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
)

// orgs stands in for the registry.
type orgs []string

func (o orgs) Org(_ context.Context, name string) (registry.Org, error) {
	for _, known := range o {
		if name == known {
			return registry.Org{Name: name}, nil
		}
	}
	return registry.Org{}, registry.ErrNotFound
}

// archive is a world that keeps evidence for two orgs.
type archive struct {
	*world
	testing.TB
	uploads *registry.Uploads
}

func newArchive(t testing.TB) *archive {
	t.Helper()
	a := &archive{world: newWorld(t), TB: t}
	_, err := a.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: events.StoreEvidence})
	must(t, err)
	_, err = a.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: events.BucketUploads})
	must(t, err)
	files, err := registry.OpenObjects(t.Context(), a.js, events.StoreEvidence)
	must(t, err)
	a.uploads, err = registry.OpenUploads(t.Context(), a.js)
	must(t, err)
	a.rec, err = reconciler.New(reconciler.Config{
		Store: a.store, Ledger: a.ledger, Events: ledger.NewEvents(a.js), Epochs: a.epochs, Log: zerolog.Nop(),
		Evidence: reconciler.EvidenceConfig{Files: files, Uploads: a.uploads, Orgs: orgs{org, "rival"}},
	})
	must(t, err)
	return a
}

func (a *archive) ask(verb string, q any) ([]byte, error) {
	a.Helper()
	body, err := json.Marshal(q)
	must(a, err)
	return a.rec.Verbs()[verb](a.Context(), worker.AdminRequest{Verb: verb, Body: body, By: events.ByOperator, Why: "dispute 7"})
}

func (a *archive) put(q events.EvidencePut) (events.EvidencePutAnswer, error) {
	a.Helper()
	body, err := a.ask(events.AdminEvidencePut, q)
	if err != nil {
		return events.EvidencePutAnswer{}, err
	}
	return events.ParseEvidencePutAnswer(body)
}

// parts are the requests that put a file.
func parts(org, name string, content []byte) []events.EvidencePut {
	sum := sha256.Sum256(content)
	n := (len(content) + events.EvidencePartBytes - 1) / events.EvidencePartBytes
	var out []events.EvidencePut
	for i := range n {
		end := min(len(content), (i+1)*events.EvidencePartBytes)
		q := events.EvidencePut{Org: org, Evidence: hex.EncodeToString(sum[:]), Part: int64(i), Parts: int64(n), Data: content[i*events.EvidencePartBytes : end]}
		if name != "" {
			q.Name = &name
		}
		out = append(out, q)
	}
	return out
}

// pdf has size bytes, none of them like another file's with another seed.
func pdf(size int, seed byte) []byte {
	return append([]byte("%PDF-1.7\n"+string('a'+rune(seed))), bytes.Repeat([]byte{'x', seed + 'a', '\n'}, size/3)...)[:size]
}

func (a *archive) refused(err error, code events.Code, field string) {
	a.Helper()
	var e *events.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		a.Errorf("%v; want %s of %s", err, code, field)
	}
}

// entries counts what the ledger will tell of a file.
func (a *archive) entries(id string) int {
	a.Helper()
	out, err := a.client.XRange(a.Context(), fmt.Sprintf("outbox:{p%02d}", a.store.Partition(org)), "-", "+").Result()
	must(a, err)
	n := 0
	for _, m := range out {
		if text := fmt.Sprint(m.Values); strings.Contains(text, `"subject":"`+id+`"`) {
			n++
			if !strings.Contains(text, `"action":"evidence_put","by":"operator","why":"dispute 7"`) {
				a.Errorf("the entry says %s", text)
			}
		}
	}
	return n
}

// TestEvidenceInParts: a file comes back as it was, and nothing is there until
// its last part is.
func TestEvidenceInParts(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	content := pdf(3*events.EvidencePartBytes+7, 0)
	qs := parts(org, "invoice.pdf", content)
	id := qs[0].Evidence
	_, err := a.put(qs[3])
	a.refused(err, events.CodeInvalidArgument, "part")
	for _, q := range qs[:3] {
		if got, err := a.put(q); err != nil || got != (events.EvidencePutAnswer{Outcome: "partial", Evidence: id}) {
			t.Errorf("part %d: %+v, %v", q.Part, got, err)
		}
		_, _, err := a.rec.Evidence(t.Context(), org, id)
		a.refused(err, events.CodeNotFound, "evidence")
	}
	want := events.EvidencePutAnswer{Outcome: "stored", Evidence: id, Fresh: true, Name: "invoice.pdf", Type: "application/pdf", Size: int64(len(content))}
	if got, err := a.put(qs[3]); err != nil || got != want {
		t.Errorf("the last part: %+v, %v", got, err)
	}
	want.Fresh = false
	for _, q := range qs { // also of an answer that was lost
		if got, err := a.put(q); err != nil || got != want {
			t.Errorf("part %d again: %+v, %v", q.Part, got, err)
		}
		if _, err := a.uploads.Get(t.Context(), registry.Upload{Org: org, Hash: id, Parts: 4}, int(q.Part)); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("part %d is kept: %v", q.Part, err)
		}
	}
	if n := a.entries(id); n != 1 {
		t.Errorf("%d entries", n)
	}
	if kind, size, err := a.rec.Evidence(t.Context(), org, id); kind != "application/pdf" || size != int64(len(content)) || err != nil {
		t.Errorf("described as %s of %d, %v", kind, size, err)
	}
	var back []byte
	for part := range int64(4) {
		body, err := a.ask(events.AdminEvidenceGet, events.EvidenceGet{Org: org, Evidence: id, Part: &part})
		must(t, err)
		got, err := events.ParseEvidenceGetAnswer(body)
		must(t, err)
		if got.Parts != 4 || got.Part != part || got.Type != "application/pdf" || got.Name != "invoice.pdf" || got.StoredAt == "" {
			t.Errorf("part %d: %+v", part, got.EvidenceRow)
		}
		back = append(back, got.Data...)
	}
	if !bytes.Equal(back, content) {
		t.Errorf("%d bytes came back of %d", len(back), len(content))
	}
	beyond := int64(4)
	_, err = a.ask(events.AdminEvidenceGet, events.EvidenceGet{Org: org, Evidence: id, Part: &beyond})
	a.refused(err, events.CodeInvalidArgument, "part")
}

// TestEvidenceRefused: what is refused leaves neither a file nor an entry, nor
// parts that would spoil the next upload.
func TestEvidenceRefused(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	page := []byte("<!DOCTYPE html><html></html>")
	honest := parts(org, "a.pdf", pdf(events.EvidencePartBytes+9, 1))
	lie := honest[0]
	lie.Data = pdf(events.EvidencePartBytes, 2)
	for _, c := range []struct {
		qs    []events.EvidencePut
		code  events.Code
		field string
	}{
		{parts(org, "a.pdf", page), events.CodeInvalidArgument, "data"},
		{parts(org, "a.png", pdf(50, 3)), events.CodeInvalidArgument, "name"},
		{parts(org, "a.exe", pdf(50, 4)), events.CodeInvalidArgument, "name"},
		{parts("nowhere", "a.pdf", pdf(50, 5)), events.CodeNotFound, "org"},
		{[]events.EvidencePut{lie, honest[1]}, events.CodeInvalidArgument, "evidence"},
		{honest[1:], events.CodeInvalidArgument, "part"}, // the liar's was dropped
	} {
		var err error
		for _, q := range c.qs {
			_, err = a.put(q)
		}
		a.refused(err, c.code, c.field)
		id := c.qs[0].Evidence
		_, _, err = a.rec.Evidence(t.Context(), c.qs[0].Org, id)
		a.refused(err, events.CodeNotFound, "evidence")
		if n := a.entries(id); n != 0 {
			t.Errorf("%d entries of what was refused", n)
		}
	}
	for _, q := range honest {
		if _, err := a.put(q); err != nil {
			t.Error(err)
		}
	}
	_, err := a.put(lie)
	a.refused(err, events.CodeInvalidArgument, "evidence")
	wrong := honest[0]
	wrong.Name = new("a.csv")
	_, err = a.put(wrong)
	a.refused(err, events.CodeInvalidArgument, "name")
}

// TestEvidenceOfOrgs: another org's file answers like none, and lists go page
// by page through one's own.
func TestEvidenceOfOrgs(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	for i := range byte(5) {
		if _, err := a.put(parts(org, "", pdf(50, i))[0]); err != nil {
			t.Fatal(err)
		}
	}
	theirs := parts("rival", "theirs.pdf", pdf(60, 0))[0]
	if _, err := a.put(theirs); err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, id := range []string{theirs.Evidence, strings.Repeat("0", 64)} {
		_, err := a.ask(events.AdminEvidenceGet, events.EvidenceGet{Org: org, Evidence: id})
		a.refused(err, events.CodeNotFound, "evidence")
		words[err.Error()] = true
		_, _, err = a.rec.Evidence(t.Context(), org, id)
		a.refused(err, events.CodeNotFound, "evidence")
		words[err.Error()] = true
	}
	if len(words) != 1 {
		t.Errorf("different words: %v", words)
	}
	seen, q := map[string]bool{}, events.EvidenceList{Org: org, Limit: new(int64(2))}
	for page := 1; ; page++ {
		body, err := a.ask(events.AdminEvidenceList, q)
		must(t, err)
		got, err := events.ParseEvidenceListAnswer(body)
		must(t, err)
		for _, row := range got.Evidence {
			seen[row.Evidence] = true
		}
		if got.Cursor == "" {
			if page != 3 || len(seen) != 5 || seen[theirs.Evidence] {
				t.Errorf("%d files in %d pages", len(seen), page)
			}
			break
		}
		q.Cursor = &got.Cursor
	}
	_, err := a.ask(events.AdminEvidenceList, events.EvidenceList{Org: "nowhere"})
	a.refused(err, events.CodeNotFound, "org")
}

// TestEvidenceAtOnce: the same file from many is one file with one entry.
func TestEvidenceAtOnce(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	q := parts(org, "a.pdf", pdf(5000, 9))[0]
	var all sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 8 {
		all.Go(func() {
			got, err := a.put(q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || got.Outcome != "stored" {
				t.Errorf("%+v, %v", got, err)
			}
			if got.Fresh {
				fresh++
			}
		})
	}
	all.Wait()
	if n := a.entries(q.Evidence); fresh != 1 || n != 1 {
		t.Errorf("%d fresh, %d entries", fresh, n)
	}
}

// TestNoEvidence: without stores the verbs say so.
func TestNoEvidence(t *testing.T) {
	t.Parallel()
	a := &archive{world: newWorld(t), TB: t}
	_, err := a.put(parts(org, "", pdf(50, 0))[0])
	a.refused(err, events.CodeInvalidArgument, "")
	_, _, err = a.rec.Evidence(t.Context(), org, strings.Repeat("0", 64))
	a.refused(err, events.CodeInvalidArgument, "")
}
