package events

// PoolLimit is one limit as operators see it; Cap nil is no cap.
type PoolLimit struct {
	Unit         string `json:"unit"`
	Period       string `json:"period"`
	Cap          *int64 `json:"cap"`
	Epsilon      int64  `json:"epsilon"`
	OnOverrun    string `json:"on_overrun"`
	LateWindowMS int64  `json:"late_window_ms"`
	Held         int64  `json:"held"`
	Spent        int64  `json:"spent"`
	Withheld     int64  `json:"withheld"`
	Remaining    int64  `json:"remaining"`
	Outstanding  int64  `json:"outstanding"`
}

// Pool is a pool as operators see it.
type Pool struct {
	Org    string      `json:"org"`
	Pool   string      `json:"pool"`
	Parent string      `json:"parent,omitempty"`
	Rev    int64       `json:"rev"`
	Frozen bool        `json:"frozen"`
	Closed bool        `json:"closed,omitempty"`
	Limits []PoolLimit `json:"limits"`
	Slots  []Slot      `json:"slots"`
}

func (p Pool) filled() Pool {
	p.Limits, p.Slots = filled(p.Limits), filled(p.Slots)
	return p
}

// PoolAnswer answers pool_create, pool_set, pool_freeze, pool_unfreeze and
// pool_close.
type PoolAnswer struct {
	Outcome string `json:"outcome"`
	Pool    Pool   `json:"pool"`
}

// Append writes the answer.
func (a PoolAnswer) Append(dst []byte) []byte {
	a.Pool = a.Pool.filled()
	return appendJSON(dst, a)
}

// ParsePoolAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParsePoolAnswer(data []byte) (PoolAnswer, error) {
	var a PoolAnswer
	return a, parse(data, &a)
}

// PoolShowAnswer answers pool_show.
type PoolShowAnswer struct {
	Pools []Pool `json:"pools"`
}

// Append writes the answer.
func (a PoolShowAnswer) Append(dst []byte) []byte {
	pools := make([]Pool, len(a.Pools))
	for i, p := range a.Pools {
		pools[i] = p.filled()
	}
	return appendJSON(dst, PoolShowAnswer{Pools: pools})
}

// ParsePoolShowAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParsePoolShowAnswer(data []byte) (PoolShowAnswer, error) {
	var a PoolShowAnswer
	return a, parse(data, &a)
}
