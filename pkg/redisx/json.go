package redisx

import (
	"bytes"
	"encoding/json"
	"strconv"

	"tallystick/pkg/budget"
)

// amountsJSON is amounts as a JSON object, units in byte order.
func amountsJSON(amounts budget.Amounts) string {
	b := []byte{'{'}
	for i, unit := range sortedUnits(amounts) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(unit)...)
		b = append(b, ':')
		b = strconv.AppendInt(b, amounts[unit], 10)
	}
	return string(append(b, '}'))
}

// quote is text as a JSON string.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil { // a string always marshals
		return `""`
	}
	return string(out)
}

func quoteOrNone(text string) string {
	if text == "" {
		return ""
	}
	return quote(text)
}

// oneLine is raw JSON without white space between its tokens: record and entry
// are lines.
func oneLine(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}
