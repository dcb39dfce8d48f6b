package events

import "time"

// Whoami asks who the connection belongs to.
type Whoami struct{}

// DecodeWhoami reads a request strictly; an empty body is {}.
func DecodeWhoami(data []byte) (Whoami, *Error) {
	r, err := begin(optionalBody(data))
	if err != nil {
		return Whoami{}, err
	}
	for m := r.object(""); m.next(); {
		m.unknown()
	}
	return Whoami{}, r.finish()
}

// WhoamiAnswer is an agent's identity as the broker knows it.
type WhoamiAnswer struct {
	Agent     string    `json:"agent"`
	Org       string    `json:"org"`
	Name      string    `json:"name"`
	Parent    string    `json:"parent,omitempty"`
	Root      string    `json:"root"`
	Depth     int       `json:"depth"`
	Pool      string    `json:"pool"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Append writes the answer. An agent without a parent has parent null.
func (a WhoamiAnswer) Append(dst []byte) []byte {
	dst = appendString(append(dst, `{"agent":`...), a.Agent)
	dst = appendString(appendName(dst, "org"), a.Org)
	dst = appendString(appendName(dst, "name"), a.Name)
	dst = appendParent(dst, a.Parent)
	dst = appendString(appendName(dst, "root"), a.Root)
	dst = appendInt(dst, "depth", int64(a.Depth))
	dst = appendString(appendName(dst, "pool"), a.Pool)
	return append(appendInstant(dst, "expires_at", a.ExpiresAt), '}')
}

func appendParent(dst []byte, parent string) []byte {
	dst = appendName(dst, "parent")
	if parent == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, parent)
}

// ParseWhoamiAnswer reads an answer; the error is an *Error where the broker
// answered one.
func ParseWhoamiAnswer(data []byte) (WhoamiAnswer, error) {
	var a WhoamiAnswer
	return a, parse(data, &a)
}
