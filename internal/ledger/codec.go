package ledger

import (
	"fmt"

	"tallystick/pkg/budget"
	"tallystick/pkg/events"
)

// Encode appends an entry's body, the bytes that the chain hashes.
func Encode(dst []byte, e *budget.Entry) []byte {
	wire := wireOf(e)
	return wire.Append(dst)
}

// Wire is an entry as the contract shows it.
func Wire(e budget.Entry) events.LedgerEntry { return wireOf(&e) }

func wireOf(e *budget.Entry) events.LedgerEntry {
	moves := make([]events.Move, len(e.Moves))
	for i, m := range e.Moves {
		moves[i] = events.Move{
			Pool: m.Pool, Unit: m.Unit, Period: m.Period,
			Held: m.Held, Spent: m.Spent, Withheld: m.Withheld, Cap: m.Cap, Adj: m.Adj, Missing: m.Missing,
		}
	}
	return events.LedgerEntry{
		ID: EntryID(e.Partition, e.OutboxID), Org: e.Org, At: e.At, Kind: events.LedgerKind(e.Kind),
		Execution: e.Execution, Agent: e.Agent, OnBehalfOf: e.OnBehalfOf, Key: e.Key, Labels: e.Labels, Trace: e.Trace,
		Moves: moves, Detail: e.Detail, Record: e.Record,
	}
}

// Decode reads an entry's body.
func Decode(body []byte) (budget.Entry, error) {
	wire, err := events.ParseLedgerEntry(body)
	if err != nil {
		return budget.Entry{}, err
	}
	e := budget.Entry{
		Org: wire.Org, At: wire.At, Kind: budget.Kind(wire.Kind),
		Execution: wire.Execution, Agent: wire.Agent, OnBehalfOf: wire.OnBehalfOf, Key: wire.Key, Labels: wire.Labels,
		Trace: wire.Trace, Detail: wire.Detail, Record: wire.Record,
	}
	if e.Partition, e.OutboxID, err = SplitEntryID(wire.ID); err != nil {
		return budget.Entry{}, fmt.Errorf("ledger entry: %w", err)
	}
	if len(wire.Moves) > 0 {
		e.Moves = make([]budget.Move, len(wire.Moves))
	}
	for i, m := range wire.Moves {
		e.Moves[i] = budget.Move{
			LimitID: budget.LimitID{Pool: m.Pool, Unit: m.Unit, Period: m.Period},
			Held:    m.Held, Spent: m.Spent, Withheld: m.Withheld, Cap: m.Cap, Adj: m.Adj, Missing: m.Missing,
		}
	}
	return e, nil
}
