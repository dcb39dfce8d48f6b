package events

import (
	"encoding/json"
	"testing"
	"time"
)

var benchAt = time.Date(2026, 11, 30, 10, 11, 12, 345678000, time.UTC)

const benchReserve = `{"amounts":{"usd_microcents":250000},"pool":"research","ttl_ms":600000,"labels":{"ticket":"T-1"}}`

func BenchmarkDecodeReserve(b *testing.B) {
	for name, body := range map[string]string{"minimal": `{"amounts":{"usd_microcents":250000}}`, "usual": benchReserve} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeReserve(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStandardReserve is the same work by encoding/json, which checks
// less.
func BenchmarkStandardReserve(b *testing.B) {
	data := []byte(benchReserve)
	b.ReportAllocs()
	for b.Loop() {
		var q Reserve
		if err := json.Unmarshal(data, &q); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSettle(b *testing.B) {
	data := []byte(`{"reservation":"0192aaaa-0000-8000-8000-000000000001","actual":{"usd_microcents":200000},"status":"success"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeSettle(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	q, err := DecodeReserve([]byte(benchReserve))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = q.Fingerprint()
	}
}

func BenchmarkAppendReserveAnswer(b *testing.B) {
	a := ReserveAnswer{
		Outcome: OutcomeAllowed, Reservation: "0192aaaa-0000-8000-8000-000000000001", Amounts: map[string]int64{"usd_microcents": 250000},
		ExpiresAt: benchAt, ExpiresInMS: new(int64(600000)),
		Pools: []PoolRow{{Pool: "research", Unit: "usd_microcents", Period: "none", Cap: 1e9, Held: 250000, Remaining: 1e9 - 250000}},
	}
	room := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		_ = a.Append(room)
	}
}

func benchEntry() LedgerEntry {
	return LedgerEntry{
		ID: "7-1764497472000-0", Org: "acme", At: benchAt, Kind: KindReserved,
		Execution: "0192aaaa-0000-8000-8000-000000000001", Agent: "0192bbbb-0000-7000-8000-000000000002", Key: "run-17/step-4",
		Moves:  []Move{{Pool: "research", Unit: "usd_microcents", Period: "none", Held: 250000}},
		Detail: json.RawMessage(`{"amounts":{"usd_microcents":250000},"created_at":"2026-11-30T10:11:12.345Z","expires_at":"2026-11-30T10:21:12.345Z","fingerprint":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"}`),
		Record: "1 held 1764497472345 1764498072345 0\n0f0f0f0f\nacme\t0192bbbb\t\t\nusd_microcents 250000\nresearch\n\n\n\n",
	}
}

func BenchmarkAppendLedgerEntry(b *testing.B) {
	e := benchEntry()
	room := make([]byte, 0, 2048)
	b.ReportAllocs()
	for b.Loop() {
		_ = e.Append(room)
	}
}

func BenchmarkParseLedgerEntry(b *testing.B) {
	body := benchEntry().Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseLedgerEntry(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEntryHash(b *testing.B) {
	body := benchEntry().Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = EntryHash([32]byte{}, 1, body)
	}
}
