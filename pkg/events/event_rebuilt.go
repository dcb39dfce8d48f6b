package events

// Why a partition was rebuilt.
const (
	RebuildEmptied = "emptied" // Redis had nothing of it
	RebuildLost    = "lost"    // Redis knew less than the ledger
	RebuildAsked   = "asked"   // by an operator
)

// PartitionRebuilt tells an org that its counters were written anew from the
// ledger, once for each rebuild.
type PartitionRebuilt struct {
	EventHead
	Partition      int             `json:"partition"`
	Reason         string          `json:"reason"`
	LedgerPosition string          `json:"ledger_position,omitempty"` // outbox id that the ledger had
	RedisPosition  string          `json:"redis_position,omitempty"`  // and the last one Redis knew before
	Lost           RebuildLoss     `json:"lost"`
	Restored       RebuildRestored `json:"restored"`
	Corrected      int64           `json:"corrected"` // entries undone: lost, and done again meanwhile
	DurationMS     int64           `json:"duration_ms"`
}

// RebuildLoss is what the ledger had of the org and Redis no longer knew.
type RebuildLoss struct {
	Entries int64            `json:"entries"`
	Kinds   map[string]int64 `json:"kinds"`
}

// RebuildRestored is what of the org was written anew.
type RebuildRestored struct {
	Limits       int64 `json:"limits"`
	Reservations int64 `json:"reservations"` // live ones
	Records      int64 `json:"records"`      // and all that replays are answered from
	Agents       int64 `json:"agents"`
	Revocations  int64 `json:"revocations"`
	Slots        int64 `json:"slots"`
}

// Append writes the event.
func (v PartitionRebuilt) Append(dst []byte) []byte {
	if v.Lost.Kinds == nil {
		v.Lost.Kinds = map[string]int64{}
	}
	return appendJSON(dst, v)
}
