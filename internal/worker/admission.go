package worker

import (
	"sync"
	"time"
)

// admission bounds how many requests one agent has outstanding at a door.
type admission struct {
	mu    sync.Mutex
	count map[string]int
	limit int
}

func newAdmission(limit int) *admission {
	return &admission{count: make(map[string]int), limit: limit}
}

func (a *admission) admit(who string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.count[who]
	if n >= a.limit {
		return false
	}
	a.count[who] = n + 1
	return true
}

func (a *admission) release(who string) {
	a.mu.Lock()
	a.drop(who)
	a.mu.Unlock()
}

func (a *admission) releaseAll(reqs []*Request) {
	a.mu.Lock()
	for _, r := range reqs {
		a.drop(r.who)
	}
	a.mu.Unlock()
}

func (a *admission) drop(who string) {
	if n := a.count[who]; n > 1 {
		a.count[who] = n - 1
	} else {
		delete(a.count, who)
	}
}

// Denial throttle: an agent that was denied more than throttleDenials times
// within throttleWindow waits for the window's end.
const (
	throttleDenials = 1000
	throttleWindow  = 10 * time.Second
)

// throttle counts each agent's denials in windows. An agent that is never
// denied costs nothing here.
type throttle struct {
	mu      sync.Mutex
	agents  map[string]window
	sweepAt time.Time
}

type window struct {
	ends    time.Time
	denials int
}

func newThrottle() *throttle { return &throttle{agents: make(map[string]window)} }

// denied counts one denial.
func (t *throttle) denied(who string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.After(t.sweepAt) {
		for k, w := range t.agents {
			if now.After(w.ends) {
				delete(t.agents, k)
			}
		}
		t.sweepAt = now.Add(throttleWindow)
	}
	w := t.agents[who]
	if now.After(w.ends) {
		w = window{ends: now.Add(throttleWindow)}
	}
	w.denials++
	t.agents[who] = w
}

// wait is how long an agent has to wait before its next reserve or charge.
func (t *throttle) wait(who string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.agents) == 0 {
		return 0
	}
	w := t.agents[who]
	if w.denials <= throttleDenials {
		return 0
	}
	return max(0, w.ends.Sub(now))
}
