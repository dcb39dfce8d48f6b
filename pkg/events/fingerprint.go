package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
)

// digest gathers a request's content in one canonical form: each given field
// as its name, one zero byte and its value, every value with its length, so
// that no two contents meet. Absent fields leave no trace and thereby differ
// from given defaults.
type digest struct{ b []byte }

func (d *digest) name(name string) {
	d.b = append(d.b, name...)
	d.b = append(d.b, 0)
}

func (d *digest) value(v string) {
	d.b = binary.AppendUvarint(d.b, uint64(len(v)))
	d.b = append(d.b, v...)
}

func (d *digest) text(name string, v *string) {
	if v != nil {
		d.name(name)
		d.value(*v)
	}
}

func (d *digest) number(name string, v *int64) {
	if v != nil {
		d.name(name)
		d.b = binary.AppendVarint(d.b, *v)
	}
}

func (d *digest) flag(name string, v *bool) {
	if v != nil {
		d.name(name)
		d.b = appendBool(d.b, *v)
	}
}

func (d *digest) amounts(name string, v map[string]int64) {
	if v == nil {
		return
	}
	d.name(name)
	d.b = binary.AppendUvarint(d.b, uint64(len(v)))
	var room [MaxUnits]string
	for _, unit := range sortedNames(room[:0], v) {
		d.value(unit)
		d.b = binary.AppendVarint(d.b, v[unit])
	}
}

func (d *digest) labels(name string, v map[string]string) {
	if v == nil {
		return
	}
	d.name(name)
	d.b = binary.AppendUvarint(d.b, uint64(len(v)))
	var room [MaxLabels]string
	for _, label := range sortedNames(room[:0], v) {
		d.value(label)
		d.value(v[label])
	}
}

// free adds an object of free content, whose order does not matter.
func (d *digest) free(name string, v json.RawMessage) {
	if v == nil {
		return
	}
	d.name(name)
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var tree any
	if dec.Decode(&tree) == nil {
		d.value(string(appendJSON(nil, tree)))
		return
	}
	d.value(string(v))
}

// sum is the first half of the SHA-256: 32 lower-case hex digits.
func (d *digest) sum() string {
	h := sha256.Sum256(d.b)
	return hex.EncodeToString(h[:16])
}
