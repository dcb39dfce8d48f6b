package events

// PipelineCreate makes a pipeline identity, which may read and acknowledge its
// org's kept decisions and nothing more.
type PipelineCreate struct {
	Org  string `json:"org"`
	Name string `json:"name"`
}

// DecodePipelineCreate reads a request strictly.
func DecodePipelineCreate(data []byte) (PipelineCreate, *Error) {
	var q PipelineCreate
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "name":
			q.Name = m.nameOf()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Name != "", "name", "")
	if err := r.finish(); err != nil {
		return PipelineCreate{}, err
	}
	return q, nil
}

// PipelineCreateAnswer is the new identity with its token, which is shown once,
// and the durable consumer on DECISIONS that is its own.
type PipelineCreateAnswer struct {
	Pipeline string `json:"pipeline"`
	Org      string `json:"org"`
	Name     string `json:"name"`
	Token    string `json:"token"`
	Consumer string `json:"consumer"`
}

// Append writes the answer.
func (a PipelineCreateAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParsePipelineCreateAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParsePipelineCreateAnswer(data []byte) (PipelineCreateAnswer, error) {
	var a PipelineCreateAnswer
	return a, parse(data, &a)
}

// PipelineList asks for an org's pipeline identities.
type PipelineList struct {
	Org string `json:"org"`
}

// DecodePipelineList reads a request strictly.
func DecodePipelineList(data []byte) (PipelineList, *Error) {
	var q PipelineList
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	if err := r.finish(); err != nil {
		return PipelineList{}, err
	}
	return q, nil
}

// PipelineRow is one pipeline identity in a list. TokenHint is a recognisable
// part of its token, never the token.
type PipelineRow struct {
	Pipeline  string `json:"pipeline"`
	Org       string `json:"org"`
	Name      string `json:"name"`
	Consumer  string `json:"consumer"`
	CreatedAt string `json:"created_at"` // see FormatMillis
	TokenHint string `json:"token_hint"`
}

// PipelineListAnswer answers pipeline_list.
type PipelineListAnswer struct {
	Pipelines []PipelineRow `json:"pipelines"`
}

// Append writes the answer.
func (a PipelineListAnswer) Append(dst []byte) []byte {
	a.Pipelines = filled(a.Pipelines)
	return appendJSON(dst, a)
}

// ParsePipelineListAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParsePipelineListAnswer(data []byte) (PipelineListAnswer, error) {
	var a PipelineListAnswer
	return a, parse(data, &a)
}

// PipelineRemove ends a pipeline identity: its token and its consumer.
type PipelineRemove struct {
	Org      string `json:"org"`
	Pipeline string `json:"pipeline"`
}

// DecodePipelineRemove reads a request strictly.
func DecodePipelineRemove(data []byte) (PipelineRemove, *Error) {
	var q PipelineRemove
	r, err := begin(data)
	if err != nil {
		return q, err
	}
	for m := r.object(""); m.next(); {
		switch string(m.name) {
		case "org":
			q.Org = m.org()
		case "pipeline":
			q.Pipeline = m.uuid()
		default:
			m.unknown()
		}
	}
	r.need(q.Org != "", "org", "")
	r.need(q.Pipeline != "", "pipeline", "")
	if err := r.finish(); err != nil {
		return PipelineRemove{}, err
	}
	return q, nil
}

// PipelineRemoveAnswer answers pipeline_remove.
type PipelineRemoveAnswer struct {
	Outcome  string `json:"outcome"`
	Pipeline string `json:"pipeline"`
}

// Append writes the answer.
func (a PipelineRemoveAnswer) Append(dst []byte) []byte { return appendJSON(dst, a) }

// ParsePipelineRemoveAnswer reads an answer; the error is an *Error where the
// broker answered one.
func ParsePipelineRemoveAnswer(data []byte) (PipelineRemoveAnswer, error) {
	var a PipelineRemoveAnswer
	return a, parse(data, &a)
}
