package ledger

import (
	"errors"

	"tallystick/pkg/budget"
)

// place reads an entry's org and kind, no more: what a verifier looks at.
func (n Names) place(body []byte) (org string, kind budget.Kind, err error) {
	s := scanner{b: body, names: n}
	err = s.object(func(name []byte) (err error) {
		switch string(name) {
		case "org":
			org, err = s.name()
		case "kind":
			var text string
			text, err = s.name()
			kind = budget.Kind(text)
		default:
			err = s.skip()
		}
		return err
	})
	s.space()
	if err == nil && (org == "" || kind == "" || s.i != len(s.b)) {
		err = errors.New("org or kind is absent, or something follows")
	}
	return org, kind, err
}
