package redisx

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tallystick/pkg/budget"
)

var errEntry = errors.New("unreadable outbox entry")

// ParseEntry reads the text a script left in the outbox:
//
//	1 <kind> <seconds> <microseconds> <execution or ->
//	<moves, one word a limit>
//	<detail: members of a JSON object, or an object>
//	<the record after the entry, or "-", org, agent, limits by tab>
func ParseEntry(partition int, outboxID, text string) (budget.Entry, error) {
	lines := strings.SplitN(text, "\n", 4)
	head := strings.Split(lines[0], " ")
	if len(lines) != 4 || len(head) != 5 || head[0] != "1" {
		return budget.Entry{}, fmt.Errorf("%w: %s: head %q", errEntry, outboxID, lines[0])
	}
	at, err := parseRedisTime(head[2], head[3])
	if err != nil {
		return budget.Entry{}, fmt.Errorf("%w: %s: time %q", errEntry, outboxID, lines[0])
	}
	e := budget.Entry{Partition: partition, OutboxID: outboxID, Kind: budget.Kind(head[1]), At: at}
	limits := []budget.LimitID(nil)
	if subject, ok := strings.CutPrefix(lines[3], "-\t"); ok {
		if head[4] != "-" {
			e.Execution = head[4]
		}
		limits, err = fillSubject(&e, subject, lines[2])
	} else {
		limits, err = fillRecord(&e, head[4], lines[2], lines[3])
	}
	if err == nil {
		e.Moves, err = parseMoves(lines[1], limits)
	}
	if err != nil {
		return budget.Entry{}, fmt.Errorf("%w: %s: %w", errEntry, outboxID, err)
	}
	return e, nil
}

// fillSubject fills an entry that has no record.
func fillSubject(e *budget.Entry, subject, detail string) ([]budget.LimitID, error) {
	words := strings.SplitN(subject, "\t", 3)
	if len(words) < 2 {
		return nil, fmt.Errorf("subject %q", subject)
	}
	e.Org, e.Agent, e.Detail = words[0], words[1], json.RawMessage(detail)
	if len(words) == 2 {
		return nil, nil
	}
	return parseLimits(words[2])
}

// fillRecord fills an entry about an execution from its record.
func fillRecord(e *budget.Entry, execution, told, text string) ([]budget.LimitID, error) {
	r, err := ParseRecord(text)
	if err != nil {
		return nil, err
	}
	e.Execution, e.Org, e.Agent, e.Record = execution, r.Org, r.Agent, text
	e.OnBehalfOf, e.Key, e.Labels, e.Trace = r.Extra.OnBehalfOf, r.Extra.Key, r.Extra.Labels, r.Extra.Trace
	var d detail
	switch e.Kind {
	case budget.KindReserved:
		d.reserved(r)
	case budget.KindSettled, budget.KindLateSettled:
		err = d.settled(r)
	case budget.KindReleased:
		d.amounts("returned", r.released())
	case budget.KindExpired:
		err = d.expired(r)
	case budget.KindLapsed:
		d.amounts("returned", r.Amounts)
	case budget.KindOverrunRefused:
		err = d.overrunRefused(r)
	case budget.KindCharged:
		d.amounts("charged", r.Amounts)
		if len(r.Resolution) == 3 && r.Resolution[1] == "1" {
			d.raw("incurred", "true")
		}
	case budget.KindExtended:
		d.amounts("amounts", r.Amounts)
		d.time("expires_at", r.ExpiresAt)
	}
	e.Detail = d.object(told)
	return r.Limits, err
}

// parseMoves reads one word a limit: "!" where it is missing, then for each
// counter its letter and signed terms, as in "h-100s+80-20".
func parseMoves(line string, limits []budget.LimitID) ([]budget.Move, error) {
	if line == "" {
		return nil, nil
	}
	words := strings.Split(line, " ")
	if len(words) != len(limits) {
		return nil, fmt.Errorf("%d moves for %d limits", len(words), len(limits))
	}
	moves := make([]budget.Move, 0, len(words))
	for i, word := range words {
		m := budget.Move{LimitID: limits[i]}
		word, m.Missing = strings.CutPrefix(word, "!")
		if err := addTerms(&m, word); err != nil {
			return nil, err
		}
		moves = append(moves, m)
	}
	return moves, nil
}

func addTerms(m *budget.Move, word string) error {
	var counter *int64
	for i := 0; i < len(word); {
		switch word[i] {
		case 'h':
			counter, i = &m.Held, i+1
		case 's':
			counter, i = &m.Spent, i+1
		case 'w':
			counter, i = &m.Withheld, i+1
		case 'c':
			counter, i = &m.Cap, i+1
		case 'a':
			counter, i = &m.Adj, i+1
		}
		end := i + 1
		for end < len(word) && word[end] >= '0' && word[end] <= '9' {
			end++
		}
		if counter == nil || i >= len(word) {
			return fmt.Errorf("move %q", word)
		}
		n, err := strconv.ParseInt(word[i:end], 10, 64)
		if err != nil {
			return fmt.Errorf("move %q", word)
		}
		*counter += n
		i = end
	}
	return nil
}
