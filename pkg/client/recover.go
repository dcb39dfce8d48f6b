package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

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
// Connect calls it for what earlier processes left, and the client repeats it
// by itself while something is left that the broker has not answered; a program
// calls it to be sure now. It passes over the holds that run. Each hold that
// was found is in the answer, and their errors are joined in the second one.
// Where the broker is out of reach it stops, and the rest stays.
func (c *Client) Recover(ctx context.Context) ([]Recovered, error) {
	all, _, err := c.recover(ctx)
	return all, err
}

// recover also tells whether the broker has answered to all.
func (c *Client) recover(ctx context.Context) (all []Recovered, complete bool, err error) {
	j := c.journal
	if j == nil {
		return nil, true, nil
	}
	j.recovering.Lock()
	defer j.recovering.Unlock()
	names, err := j.left()
	if err != nil {
		return nil, false, fmt.Errorf("client: journal: %w", err)
	}
	complete = true
	for _, name := range names {
		r, how := c.recoverOne(ctx, name)
		all = append(all, r)
		if r.Err != nil {
			err = errors.Join(err, fmt.Errorf("client: journal: %s: %w", r.File, r.Err))
		}
		complete = complete && how == over
		if how == unheard {
			break
		}
	}
	return all, complete, err
}

// What became of delivering one hold.
const (
	over    = iota // it is resolved, or another try changes nothing
	unclear        // it has to be tried again
	unheard        // so have all others: nobody answers
)

// recoverAndTell recovers for Config.OnRecovered, and once more later where
// that was not complete.
func (c *Client) recoverAndTell(ctx context.Context) {
	all, complete, err := c.recover(ctx)
	if err != nil && len(all) == 0 {
		all = []Recovered{{File: c.journal.dir, Err: err}} // it cannot be read
	}
	if c.cfg.OnRecovered != nil {
		for _, r := range all {
			c.cfg.OnRecovered(r)
		}
	}
	if !complete {
		c.recoverLater()
	}
}

// Pauses between deliveries of what is left.
const (
	minRecoverPause = time.Second
	maxRecoverPause = time.Minute
)

// recoverLater delivers what is left as soon as the broker answers again. One
// goroutine does, until everything is delivered or the client is closed.
func (c *Client) recoverLater() {
	j := c.journal
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.again = true
	if j.later {
		return
	}
	j.later = true
	go func() {
		for pause := minRecoverPause; j.goOn(); pause = min(2*pause, maxRecoverPause) {
			if sleep(j.end, pause/2+rand.N(pause/2)) != nil {
				return
			}
			c.recoverAndTell(j.end)
		}
	}()
}

// goOn begins a round, or ends the goroutine where no round is asked for.
func (j *journal) goOn() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.later, j.again = j.again, false
	return j.later
}

// left names the files of holds that do not run in this process.
func (j *journal) left() ([]string, error) {
	// Read under mu: a hold that ends meanwhile loses its file before its mark.
	j.mu.Lock()
	defer j.mu.Unlock()
	files, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, pageExt) && !j.live[name] {
			names = append(names, name)
		}
	}
	return names, nil
}

// recoverOne resolves one file's hold.
func (c *Client) recoverOne(ctx context.Context, name string) (r Recovered, how int) {
	p := &page{j: c.journal, name: name}
	r.File = filepath.Join(p.j.dir, name)
	data, err := os.ReadFile(r.File)
	if err != nil {
		r.Err = err
		return r, unclear
	}
	if p.e, err = decodeEntry(data); err == nil && !p.e.decide() {
		err = fmt.Errorf("unknown stage %q", p.e.Stage)
	}
	if err != nil {
		r.Err = fmt.Errorf("set aside as %s: %w", name+corruptExt, errors.Join(err, p.setAside(corruptExt)))
		return r, over
	}
	r.Key, r.Reservation, r.Verb = p.e.Key, p.e.Reservation, p.e.Verb
	if p.e.Org != c.org || p.e.Agent != c.agent {
		r.Err = fmt.Errorf("this hold is agent %s's of %s: connect with its token to resolve it", p.e.Agent, p.e.Org)
		return r, over
	}
	err = c.deliver(ctx, p.e.Verb, p.e.ResolveKey, p.e.Body)
	switch {
	case err == nil:
		r.Err = p.done()
	case final(err):
		r.Err = fmt.Errorf("set aside as %s: %w", name+refusedExt, errors.Join(err, p.setAside(refusedExt)))
	default:
		r.Err = err
		if errors.Is(err, &events.Error{Code: events.CodeInternal}) {
			return r, unclear // a bug that one hold meets should not keep the others
		}
		return r, unheard
	}
	return r, over
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
	p.j.ending.RLock()
	defer p.j.ending.RUnlock()
	if p.j.closed {
		return errJournalClosed
	}
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
