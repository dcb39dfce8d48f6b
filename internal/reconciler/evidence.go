package reconciler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"tallystick/internal/evidence"
	"tallystick/internal/registry"
	"tallystick/internal/worker"
	"tallystick/pkg/events"
	"tallystick/pkg/redisx"
)

// Orgs knows which orgs there are; registry.ErrNotFound where one is not.
type Orgs interface {
	Org(ctx context.Context, name string) (registry.Org, error)
}

// EvidenceConfig is where the files are that corrections rest on.
type EvidenceConfig struct {
	Files   *registry.Objects
	Uploads *registry.Uploads
	Orgs    Orgs
}

// evidenceKeeper serves the verbs of evidence. A file is kept under its org and
// the SHA-256 of its content, which is its id: it cannot be exchanged without
// another id, and the same content is one file.
type evidenceKeeper struct {
	EvidenceConfig
	mu sync.Mutex // one new file at a time
}

// storeTimeout bounds the storing of one file. A write that fails makes the
// client purge what it wrote, which nobody may: it would wait for an answer.
const storeTimeout = 30 * time.Second

// What is told of a file beside its content.
const (
	metaName = "name"
	metaType = "type"
)

// Evidence describes a file of an org; not_found where it has none by this id.
func (r *Reconciler) Evidence(ctx context.Context, org, id string) (kind string, size int64, err error) {
	if r.evidence.Files == nil {
		return "", 0, errNoEvidence()
	}
	o, err := r.evidence.Files.Stat(ctx, objectName(org, id))
	if err != nil {
		return "", 0, noEvidence(err)
	}
	return o.Meta[metaType], o.Size, nil
}

func objectName(org, id string) string { return org + "/" + id }

// noEvidence is not_found in the same words for what another org has and for
// what nobody has.
func noEvidence(err error) error {
	if !errors.Is(err, registry.ErrNotFound) {
		return answerable(err)
	}
	e := events.NotFound("evidence")
	e.Field = "evidence"
	return e
}

func errNoEvidence() *events.Error {
	return events.InvalidArgument("", "this installation keeps no evidence", "")
}

// serveEvidencePut takes one part of a file and makes the file of the last one.
// Parts wait in KV, so it does not matter which reconciler gets which.
func (r *Reconciler) serveEvidencePut(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeEvidencePut(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.evidence.needOrg(ctx, q.Org); err != nil {
		return nil, err
	}
	answer, err := r.evidence.again(ctx, q)
	if errors.Is(err, registry.ErrNotFound) {
		answer, err = r.takePart(ctx, req, q)
	}
	if err != nil {
		return nil, answerable(err)
	}
	return answer.Append(nil), nil
}

func (k *evidenceKeeper) needOrg(ctx context.Context, org string) error {
	if k.Files == nil {
		return errNoEvidence()
	}
	_, err := k.Orgs.Org(ctx, org)
	if errors.Is(err, registry.ErrNotFound) {
		e := events.NotFound("org")
		e.Field = "org"
		return e
	}
	return answerable(err)
}

// again answers for a file that is there: each part is compared with it, so
// nobody is told that something was stored which was not.
func (k *evidenceKeeper) again(ctx context.Context, q events.EvidencePut) (events.EvidencePutAnswer, error) {
	stored, content, err := k.Files.Get(ctx, objectName(q.Org, q.Evidence))
	if err != nil {
		return events.EvidencePutAnswer{}, err
	}
	part, parts := partOf(content, q.Part)
	if parts != q.Parts || !bytes.Equal(part, q.Data) {
		return events.EvidencePutAnswer{}, errOtherContent()
	}
	if err := evidence.Named(nameOf(q), evidence.Type(stored.Meta[metaType])); err != nil {
		return events.EvidencePutAnswer{}, err
	}
	return storedAnswer(q.Evidence, stored, false), nil
}

func errOtherContent() error {
	return events.InvalidArgument("evidence", "the content has another SHA-256", "give the SHA-256 of the whole file, and its parts in order")
}

func nameOf(q events.EvidencePut) string {
	if q.Name == nil {
		return ""
	}
	return *q.Name
}

// partOf gives one part, nil behind the end, and how many there are.
func partOf(content []byte, part int64) (data []byte, parts int64) {
	size := int64(len(content))
	from := min(part*events.EvidencePartBytes, size)
	return content[from:min(from+events.EvidencePartBytes, size)], (size + events.EvidencePartBytes - 1) / events.EvidencePartBytes
}

func storedAnswer(id string, o registry.Object, fresh bool) events.EvidencePutAnswer {
	return events.EvidencePutAnswer{
		Outcome: events.OutcomeStored, Evidence: id, Fresh: fresh, Name: o.Meta[metaName], Type: o.Meta[metaType], Size: o.Size,
	}
}

// takePart keeps a part, or makes the file where it is the last.
func (r *Reconciler) takePart(ctx context.Context, req worker.AdminRequest, q events.EvidencePut) (events.EvidencePutAnswer, error) {
	upload := registry.Upload{Org: q.Org, Hash: q.Evidence, Parts: int(q.Parts)}
	if q.Part < q.Parts-1 {
		err := r.evidence.Uploads.Put(ctx, upload, int(q.Part), q.Data)
		return events.EvidencePutAnswer{Outcome: events.OutcomePartial, Evidence: q.Evidence}, err
	}
	content, err := r.evidence.assemble(ctx, upload, q.Data)
	if err != nil {
		return events.EvidencePutAnswer{}, err
	}
	answer, err := r.keepEvidence(ctx, req, q, content)
	var refused *events.Error
	if err == nil || errors.As(err, &refused) { // a repeat after any other error needs the parts
		if err := r.evidence.Uploads.Forget(ctx, upload); err != nil {
			r.cfg.Log.Warn().Err(err).Str("evidence", q.Evidence).Msg("parts of an upload stay until the bucket forgets them")
		}
	}
	return answer, err
}

// assemble puts the parts together; the last is in hand.
func (k *evidenceKeeper) assemble(ctx context.Context, u registry.Upload, last []byte) ([]byte, error) {
	var content []byte
	for part := range u.Parts - 1 {
		data, err := k.Uploads.Get(ctx, u, part)
		if errors.Is(err, registry.ErrNotFound) {
			return nil, events.InvalidArgument("part", "an earlier part is not there", "send all parts again, in order, within an hour")
		}
		if err != nil {
			return nil, err
		}
		content = append(content, data...)
	}
	return append(content, last...), nil
}

// keepEvidence stores a file that is what it says. Its hash goes to the ledger first:
// no file is there of which the ledger does not tell. A repeat after a failure
// between the two writes a second entry.
func (r *Reconciler) keepEvidence(ctx context.Context, req worker.AdminRequest, q events.EvidencePut, content []byte) (events.EvidencePutAnswer, error) {
	var none events.EvidencePutAnswer
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != q.Evidence {
		return none, errOtherContent()
	}
	kind, err := evidence.Check(nameOf(q), content)
	if err != nil {
		return none, err
	}
	k, name := &r.evidence, objectName(q.Org, q.Evidence)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	there, err := k.Files.Stat(ctx, name)
	if !errors.Is(err, registry.ErrNotFound) {
		return storedAnswer(q.Evidence, there, false), err
	}
	err = r.cfg.Store.Administer(ctx, redisx.AdministerArgs{Org: q.Org, Action: req.Verb, By: req.By, Why: req.Why, Subject: q.Evidence})
	if err != nil {
		return none, err
	}
	meta := map[string]string{metaType: string(kind)}
	if q.Name != nil {
		meta[metaName] = *q.Name
	}
	stored, fresh, err := k.Files.Put(ctx, name, meta, content)
	return storedAnswer(q.Evidence, stored, fresh), err
}

func (r *Reconciler) serveEvidenceGet(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeEvidenceGet(req.Body)
	if refused != nil {
		return nil, refused
	}
	if r.evidence.Files == nil {
		return nil, errNoEvidence()
	}
	stored, content, err := r.evidence.Files.Get(ctx, objectName(q.Org, q.Evidence))
	if err != nil {
		return nil, noEvidence(err)
	}
	var answer events.EvidenceGetAnswer
	if q.Part != nil {
		answer.Part = *q.Part
	}
	answer.EvidenceRow = evidenceRow(q.Evidence, stored)
	if answer.Data, answer.Parts = partOf(content, answer.Part); answer.Part >= answer.Parts {
		return nil, events.InvalidArgument("part", "the file has fewer parts", "parts are counted from 0")
	}
	return answer.Append(nil), nil
}

func evidenceRow(id string, o registry.Object) events.EvidenceRow {
	return events.EvidenceRow{Evidence: id, Name: o.Meta[metaName], Type: o.Meta[metaType], Size: o.Size, StoredAt: events.FormatMillis(o.At)}
}

func (r *Reconciler) serveEvidenceList(ctx context.Context, req worker.AdminRequest) ([]byte, error) {
	q, refused := events.DecodeEvidenceList(req.Body)
	if refused != nil {
		return nil, refused
	}
	if err := r.evidence.needOrg(ctx, q.Org); err != nil {
		return nil, err
	}
	all, err := r.evidence.Files.List(ctx, objectName(q.Org, ""))
	if err != nil {
		return nil, answerable(err)
	}
	limit := int(events.ListLimitMax)
	if q.Limit != nil {
		limit = int(*q.Limit)
	}
	var answer events.EvidenceListAnswer
	for _, o := range all {
		id := strings.TrimPrefix(o.Name, objectName(q.Org, ""))
		if q.Cursor != nil && id <= *q.Cursor {
			continue
		}
		if len(answer.Evidence) == limit {
			answer.Cursor = answer.Evidence[limit-1].Evidence
			break
		}
		answer.Evidence = append(answer.Evidence, evidenceRow(id, o))
	}
	return answer.Append(nil), nil
}
