package redisx

import (
	"encoding/json"
	"strconv"
	"time"

	"tallystick/pkg/budget"
)

// detail builds the kind's own fields of an entry, as members of one object.
type detail struct{ buf []byte }

func (d *detail) raw(name, value string) {
	if value == "" {
		return
	}
	if len(d.buf) > 0 {
		d.buf = append(d.buf, ',')
	}
	d.buf = append(d.buf, '"')
	d.buf = append(d.buf, name...)
	d.buf = append(d.buf, '"', ':')
	d.buf = append(d.buf, value...)
}

func (d *detail) amounts(name string, amounts budget.Amounts) { d.raw(name, amountsJSON(amounts)) }

func (d *detail) text(name, value string) { d.raw(name, quoteOrNone(value)) }

func (d *detail) time(name string, t time.Time) {
	if !t.IsZero() {
		d.raw(name, strconv.Quote(t.Format("2006-01-02T15:04:05.000Z07:00")))
	}
}

// object closes the detail, with the members the script passed on.
func (d *detail) object(told string) json.RawMessage {
	if told != "" && told != "missing" {
		if len(d.buf) > 0 {
			d.buf = append(d.buf, ',')
		}
		d.buf = append(d.buf, told...)
	}
	if len(d.buf) == 0 {
		return nil
	}
	return json.RawMessage("{" + string(d.buf) + "}")
}

func (d *detail) reserved(r Record) {
	d.amounts("amounts", r.Amounts)
	d.time("created_at", r.CreatedAt)
	d.time("expires_at", r.ExpiresAt)
	d.text("target", r.Extra.Target)
	d.text("settler", r.Settler)
	d.text("purpose", r.Extra.Purpose)
	d.text("fingerprint", r.Fingerprint)
	if len(r.Slots) > 0 {
		type slot struct {
			Pool    string `json:"pool"`
			Pattern string `json:"pattern"`
		}
		slots := make([]slot, 0, len(r.Slots))
		for _, s := range r.Slots {
			slots = append(slots, slot{s.Pool, s.Pattern})
		}
		d.raw("slots", marshalled(slots))
	}
}

func (d *detail) settled(r Record) error {
	res, err := r.settled()
	if err != nil {
		return err
	}
	d.amounts("authorised", r.Amounts)
	d.amounts("charged", res.charged)
	d.amounts("returned", res.returned)
	if len(res.overrun) > 0 {
		d.amounts("overrun", res.overrun)
	}
	if res.costUnknown {
		d.raw("cost_unknown", "true")
	}
	return nil
}

// expired tells what became of the hold: withheld for a late settle, charged
// after a refused overrun, or returned.
func (d *detail) expired(r Record) error {
	if len(r.Resolution) != 3 {
		return errRecord
	}
	charged, err := parseAmounts(r.Resolution[2])
	switch {
	case err != nil:
		return err
	case len(charged) > 0:
		d.amounts("charged", charged)
	case r.Resolution[1] == "1":
		d.amounts("withheld", r.Amounts)
		d.time("lapses_at", r.Till)
	default:
		d.amounts("returned", r.Amounts)
	}
	return nil
}

func (d *detail) overrunRefused(r Record) error {
	if len(r.Attempts) == 0 || len(r.Attempts[len(r.Attempts)-1].Words) != 3 {
		return errRecord
	}
	words := r.Attempts[len(r.Attempts)-1].Words
	for i, name := range []string{"booked", "authorised", "epsilon"} {
		amounts, err := parseAmounts(words[i])
		if err != nil {
			return err
		}
		d.amounts(name, amounts)
	}
	return nil
}
