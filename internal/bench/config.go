package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Sections of the full table, in their order.
const (
	SectionRaw   = "raw"   // the script alone; always measured
	SectionDoors = "doors" // both doors, lifecycles, the scribe
	SectionHand  = "hand"  // what people write by hand
	SectionScale = "scale" // a million outstanding reservations
	SectionTrees = "trees" // depth, slots, registering, revoking
	SectionAudit = "audit" // scribe, chain, fold, comparison, rebuild
)

// Sections lists them.
func Sections() []string {
	return []string{SectionRaw, SectionDoors, SectionHand, SectionScale, SectionTrees, SectionAudit}
}

// Doors by name.
const (
	DoorDirect  = "direct"
	DoorDurable = "durable"
)

// Config of a run.
type Config struct {
	// Clients and Door ask for one load instead of the full table.
	Clients int
	Door    string

	Window      time.Duration // length of one measurement
	Windows     int           // measurements of a row; the median is printed
	Sections    []string      // empty: all
	Outstanding int           // reservations of the section scale
	Tree        int           // agents of the tree that is revoked
	Drain       int           // entries for the scribe to carry
	Ledger      int           // entries on the ledger of the section audit
	Live        int           // reservations of its rebuild

	Dir      string   // for the servers' data; emptied afterwards
	Load     []string // the command that runs [Load]
	Progress io.Writer
}

// Defaults: the full table takes three minutes on two cores.
const (
	WindowDefault      = 1500 * time.Millisecond
	WindowsDefault     = 3
	OutstandingDefault = 1_000_000
	DrainDefault       = 200_000
	TreeDefault        = 10_000
	LedgerDefault      = 1_000_000
	LiveDefault        = 100_000
)

const (
	clientsMax   = 512
	requestsMax  = 400_000 // of a row while the scribe is paused: below the outbox's bound
	connections  = 8       // of the load generator; each is an agent
	windowMax    = 5 * time.Minute
	windowsMax   = 25
	settleWindow = 300 * time.Millisecond // load before the first window
)

// Validate returns every problem at once.
func (c Config) Validate() error {
	var errs []error
	if c.Clients < 0 || c.Clients > clientsMax {
		errs = append(errs, fmt.Errorf("clients %d: want 1 to %d", c.Clients, clientsMax))
	}
	if c.Door != "" && c.Door != DoorDirect && c.Door != DoorDurable {
		errs = append(errs, fmt.Errorf("door %q: want direct or durable", c.Door))
	}
	if c.Window <= 0 || c.Window > windowMax {
		errs = append(errs, fmt.Errorf("duration %s: want up to %s", c.Window, windowMax))
	}
	if c.Windows < 1 || c.Windows > windowsMax {
		errs = append(errs, fmt.Errorf("windows %d: want 1 to %d", c.Windows, windowsMax))
	}
	if c.Outstanding < 10_000 || c.Outstanding > 100_000_000 {
		errs = append(errs, fmt.Errorf("outstanding %d: want 10,000 to 100,000,000", c.Outstanding))
	}
	if c.Tree < 1 || c.Tree > 1_000_000 {
		errs = append(errs, fmt.Errorf("tree %d: want 1 to 1,000,000", c.Tree))
	}
	if c.Drain < 1 || c.Drain > requestsMax {
		errs = append(errs, fmt.Errorf("drain %d: want 1 to %d", c.Drain, requestsMax))
	}
	if c.Ledger < 1 || c.Ledger > 100_000_000 {
		errs = append(errs, fmt.Errorf("ledger %d: want 1 to 100,000,000", c.Ledger))
	}
	if c.Live < 1 || c.Live > requestsMax {
		errs = append(errs, fmt.Errorf("live %d: want 1 to %d", c.Live, requestsMax))
	}
	for _, s := range c.Sections {
		if !slices.Contains(Sections(), s) {
			errs = append(errs, fmt.Errorf("section %q: want one of %v", s, Sections()))
		}
	}
	if c.Dir == "" || len(c.Load) == 0 || c.Progress == nil {
		errs = append(errs, errors.New("no directory, load command or progress writer"))
	}
	return errors.Join(errs...)
}

func (c Config) has(section string) bool {
	return len(c.Sections) == 0 || slices.Contains(c.Sections, section)
}
