package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tallystick/pkg/events"
)

// Recovered is what became of one hold that was left in the journal.
type Recovered struct {
	// File in the journal. One that could not be read was renamed to
	// *.corrupt, one whose request the broker refused to *.refused; no such
	// file is ever deleted or sent again.
	File string
	// Key of the reserve, and the reservation where it was known.
	Key, Reservation string
	// Verb that resolved it: settle or release.
	Verb string
	// Err is nil once the broker has booked it.
	Err error
}

// Recover delivers what is left in the journal, under the keys that it was
// first sent with or would have been:
//
//   - A settle or release without an answer is sent again as it was.
//   - A hold whose function did not end is released by key, or, once
//     [Hold.Dispatched] was called, settled with unknown cost.
//
// Connect calls it for what earlier processes left. Call it now and then in a
// process that lives long, for what it could not deliver itself. It passes over
// the holds that run. Each hold that was found is in the answer, and the errors
// are joined in the second one. Where the broker is out of reach it stops at
// once, and the rest stays for the next time.
func (c *Client) Recover(ctx context.Context) ([]Recovered, error) {
	j := c.journal
	if j == nil {
		return nil, nil
	}
	j.recovering.Lock()
	defer j.recovering.Unlock()
	names, err := j.left()
	if err != nil {
		return nil, fmt.Errorf("client: journal: %w", err)
	}
	var all []Recovered
	for _, name := range names {
		r, goOn := c.recoverOne(ctx, name)
		all = append(all, r)
		if r.Err != nil {
			err = errors.Join(err, fmt.Errorf("client: journal: %s: %w", r.File, r.Err))
		}
		if !goOn {
			break
		}
	}
	return all, err
}

// left names the files of holds that do not run in this process.
func (j *journal) left() ([]string, error) {
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	j.count.Lock()
	defer j.count.Unlock()
	var names []string
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, pageExt) && !j.live[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

// recoverOne resolves one file's hold; false means that the broker does not
// answer, so that asking for the next one would only take time.
func (c *Client) recoverOne(ctx context.Context, name string) (Recovered, bool) {
	p := &page{j: c.journal, name: name}
	r := Recovered{File: filepath.Join(p.j.dir, name)}
	data, err := os.ReadFile(r.File)
	if err != nil {
		r.Err = err
		return r, true
	}
	if p.e, err = decodeEntry(data); err == nil && !p.e.decide() {
		err = fmt.Errorf("unknown stage %q", p.e.Stage)
	}
	if err != nil {
		r.Err = fmt.Errorf("set aside as %s: %w", name+corruptExt, errors.Join(err, p.setAside(corruptExt)))
		return r, true
	}
	r.Key, r.Reservation, r.Verb = p.e.Key, p.e.Reservation, p.e.Verb
	if p.e.Org != c.org || p.e.Agent != c.agent {
		r.Err = fmt.Errorf("this hold is agent %s's of %s: connect with its token to resolve it", p.e.Agent, p.e.Org)
		return r, true
	}
	err = c.deliver(ctx, p.e.Verb, p.e.ResolveKey, p.e.Body)
	switch {
	case err == nil:
		r.Err = p.done()
	case final(err):
		r.Err = fmt.Errorf("set aside as %s: %w", name+refusedExt, errors.Join(err, p.setAside(refusedExt)))
	default:
		r.Err = err
		return r, false
	}
	return r, true
}

// decide fills in the request that an unfinished entry calls for.
func (e *entry) decide() bool {
	var q any
	switch e.Stage {
	case stageResolving:
		return (e.Verb == events.VerbSettle || e.Verb == events.VerbRelease) && len(e.Body) > 0
	case stageOpen:
		e.Verb, q = events.VerbRelease, events.Release{Key: &e.Key}
	case stageDispatched:
		e.Verb, q = events.VerbSettle, events.Settle{Reservation: &e.Reservation}
	default:
		return false
	}
	var err error
	e.Body, err = json.Marshal(q)
	return err == nil
}

func (p *page) setAside(ext string) error {
	name := filepath.Join(p.j.dir, p.name)
	if err := os.Rename(name, name+ext); err != nil {
		return err
	}
	return syncDir(p.j.dir)
}

// deliver sends a settle or release.
func (c *Client) deliver(ctx context.Context, verb, key string, body []byte) error {
	ans, err := c.Do(ctx, Request{Verb: verb, Key: key, Body: body})
	var e *events.Error
	switch {
	case err == nil && ans.Outcome == events.OutcomeDenied:
		return &DeniedError{events.Denial{Reason: events.Reason(ans.Reason)}}
	case verb == events.VerbRelease && errors.As(err, &e) && e.Code == events.CodeAlreadyReleased:
		return nil
	}
	return err
}

// final reports whether the broker will say nothing else to this request.
func final(err error) bool {
	var denied *DeniedError
	return err == nil || decided(err) || errors.As(err, &denied)
}
