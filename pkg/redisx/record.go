package redisx

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tallystick/pkg/budget"
)

// Record is an execution record: the reservation and the idempotency record
// in one. The text in Redis is lines, so that GET shows it readably; lua/README.md
// describes it.
type Record struct {
	State                 budget.State
	CreatedAt, ExpiresAt  time.Time
	Till                  time.Time // end of the late window, or time of resolution
	Fingerprint           string
	Org, Agent, Settler   string
	Ancestors             []string
	Amounts               budget.Amounts
	Limits                []budget.LimitID
	Slots                 []budget.Slot // Max is not kept
	Extra                 Extra
	Resolution            []string // tab-separated words of the resolution line
	Attempts              []Attempt
	holderLine, slotsLine string
	limitsLine            string
}

// Extra is what the ledger tells about a request and scripts do not look at.
type Extra struct {
	Key        string            `json:"key,omitempty"`
	OnBehalfOf string            `json:"for,omitempty"`
	Purpose    string            `json:"purpose,omitempty"`
	Target     string            `json:"target,omitempty"`
	Trace      string            `json:"trace,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	TTLMS      int64             `json:"ttl,omitempty"`
}

// Attempt is a remembered attempt to settle or extend a live reservation.
type Attempt struct {
	KeyID, Fingerprint, Verb string
	Words                    []string
}

var errRecord = errors.New("unreadable execution record")

// ParseRecord reads the text of a record.
func ParseRecord(text string) (Record, error) {
	lines := strings.SplitN(text, "\n", 9)
	if len(lines) != 9 {
		return Record{}, fmt.Errorf("%w: %d lines", errRecord, len(lines))
	}
	head, binding := strings.Split(lines[0], " "), strings.Split(lines[2], "\t")
	if len(head) != 6 || head[0] != "1" || len(binding) != 4 {
		return Record{}, fmt.Errorf("%w: head %q", errRecord, lines[0])
	}
	r := Record{
		State: budget.State(head[1]), Fingerprint: lines[1],
		Org: binding[0], Agent: binding[1], Settler: binding[2],
		holderLine: binding[1], limitsLine: lines[4], slotsLine: lines[5],
	}
	if binding[3] != "" {
		r.Ancestors = strings.Split(binding[3], ",")
	}
	var err [6]error
	r.CreatedAt, err[0] = parseRedisTime(head[2], head[3])
	r.ExpiresAt, err[1] = parseMS(head[4])
	r.Till, err[2] = parseMS(head[5])
	r.Amounts, err[3] = parseAmounts(lines[3])
	if lines[6] != "" {
		err[4] = json.Unmarshal([]byte(lines[6]), &r.Extra)
	}
	if lines[7] != "" {
		r.Resolution = strings.Split(lines[7], "\t")
	}
	r.Limits, err[5] = parseLimits(lines[4])
	slots := splitTabs(lines[5])
	for i := 0; i+1 < len(slots); i += 2 {
		r.Slots = append(r.Slots, budget.Slot{Pool: slots[i], Pattern: slots[i+1]})
	}
	for line := range strings.SplitSeq(lines[8], "\n") {
		if words := splitTabs(line); len(words) >= 4 {
			r.Attempts = append(r.Attempts, Attempt{words[0], words[1], words[2], words[3:]})
		}
	}
	if e := errors.Join(err[:]...); e != nil {
		return Record{}, fmt.Errorf("%w: %w", errRecord, e)
	}
	return r, nil
}

// Pool is the pool that the request named.
func (r Record) Pool() string {
	if len(r.Limits) == 0 {
		return ""
	}
	return r.Limits[0].Pool
}

func splitTabs(line string) []string {
	if line == "" {
		return nil
	}
	return strings.Split(line, "\t")
}

func parseLimits(line string) ([]budget.LimitID, error) {
	words := splitTabs(line)
	if len(words)%3 != 0 {
		return nil, fmt.Errorf("limits %q", line)
	}
	limits := make([]budget.LimitID, 0, len(words)/3)
	for i := 0; i < len(words); i += 3 {
		limits = append(limits, budget.LimitID{Pool: words[i], Unit: words[i+1], Period: words[i+2]})
	}
	return limits, nil
}

// parseRedisTime reads the seconds and microseconds of Redis's TIME.
func parseRedisTime(sec, usec string) (time.Time, error) {
	s, err := strconv.ParseInt(sec, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	return time.Unix(s, us*1000).UTC(), err
}

func parseMS(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	if ms == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(ms).UTC(), nil
}

// parseAmounts reads "unit=n unit=n".
func parseAmounts(text string) (budget.Amounts, error) {
	amounts := budget.Amounts{}
	if text == "" || text == "-" {
		return amounts, nil
	}
	for part := range strings.SplitSeq(text, " ") {
		unit, digits, ok := strings.Cut(part, "=")
		n, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("amounts %q", text)
		}
		amounts[unit] = n
	}
	return amounts, nil
}

// formatAmounts is the inverse of parseAmounts, units in byte order.
func formatAmounts(amounts budget.Amounts) string {
	if len(amounts) == 1 { // nearly always
		for unit, n := range amounts {
			return unit + "=" + strconv.FormatInt(n, 10)
		}
	}
	parts := make([]string, 0, len(amounts))
	for _, unit := range sortedUnits(amounts) {
		parts = append(parts, unit+"="+strconv.FormatInt(amounts[unit], 10))
	}
	return strings.Join(parts, " ")
}

// holdBody is the text of a record after its head line: what never changes,
// or only by an extend.
func holdBody(fingerprint string, agent budget.Agent, settler string, amounts budget.Amounts, limits, slots string, extra Extra) string {
	told, err := json.Marshal(extra)
	if err != nil { // strings and a map of strings always marshal
		told = []byte("{}")
	}
	return fingerprint + "\n" + agent.Org + "\t" + agent.ID + "\t" + settler + "\t" + strings.Join(agent.Ancestors, ",") +
		"\n" + formatAmounts(amounts) + "\n" + limits + "\n" + slots + "\n" + string(told) + "\n"
}
