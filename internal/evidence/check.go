package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"tallystick/pkg/events"
)

// Type is a media type without parameters.
type Type string

// What is allowed. Office documents are not: they are archives, and hold macros.
const (
	JSON  Type = "application/json"
	PDF   Type = "application/pdf"
	JPEG  Type = "image/jpeg"
	PNG   Type = "image/png"
	WebP  Type = "image/webp"
	Mail  Type = "message/rfc822"
	CSV   Type = "text/csv"
	Plain Type = "text/plain"
)

// Types lists what is allowed, in byte order.
func Types() []Type { return []Type{JSON, PDF, JPEG, PNG, WebP, Mail, CSV, Plain} }

// fitting are the types that a name's ending may stand for. Text is told apart
// by guessing, and every CSV, JSON document or mail is text as well; nothing
// but text is ever among them.
func fitting(ending string) []Type {
	switch strings.ToLower(ending) {
	case ".pdf":
		return []Type{PDF}
	case ".png":
		return []Type{PNG}
	case ".jpg", ".jpeg":
		return []Type{JPEG}
	case ".webp":
		return []Type{WebP}
	case ".json":
		return []Type{JSON}
	case ".csv":
		return []Type{CSV, Plain}
	case ".eml":
		return []Type{Mail, Plain}
	case ".txt", ".text", ".log", ".md":
		return []Type{Plain, CSV, JSON, Mail}
	}
	return nil
}

// Check gives the type of a file, or refuses it. The name is a label and may be
// "": what it says decides nothing, but it must not contradict the content.
func Check(name string, content []byte) (Type, error) {
	switch {
	case len(content) == 0:
		return "", events.InvalidArgument("data", "the file is empty", "")
	case len(content) > events.MaxEvidenceBytes:
		return "", events.EvidenceTooLarge()
	}
	found := detect(content)
	if !slices.Contains(Types(), found) {
		return "", events.InvalidArgument("data", "by its content the file is "+string(found)+", which is not allowed as evidence", allowed())
	}
	if err := ambiguous(found, content); err != nil {
		return "", err
	}
	if err := Named(name, found); err != nil {
		return "", err
	}
	return found, nil
}

// Named refuses a name whose ending contradicts the type; no name and no ending
// say nothing.
func Named(name string, found Type) error {
	if name == "" {
		return nil
	}
	if !events.ValidEvidenceName(name) {
		return events.InvalidArgument("name", "must have 1 to 128 bytes, no control characters, outer spaces, / or \\", "it is a label, not a path")
	}
	ending := path.Ext(name)
	if ending == "" {
		return nil
	}
	fit := fitting(ending)
	if fit == nil {
		return events.InvalidArgument("name", "evidence has no ending "+ending,
			"give .csv, .eml, .jpeg, .jpg, .json, .log, .md, .pdf, .png, .text, .txt, .webp or no ending")
	}
	if !slices.Contains(fit, found) {
		return events.InvalidArgument("name", "the ending "+ending+" contradicts the content, which is "+string(found), "a file is what its content is: correct the name, or look at where it came from")
	}
	return nil
}

// detect asks the library, which looks at the first few KiB. The kinds of JSON
// that it knows are JSON here, if the rest of the text is.
func detect(content []byte) Type {
	kind := mimetype.Detect(content)
	for m := kind; m != nil; m = m.Parent() {
		if !m.Is(string(JSON)) {
			continue
		}
		if json.Valid(content) {
			return JSON
		}
		return Plain
	}
	found, _, _ := strings.Cut(kind.String(), ";") // without the charset
	return Type(found)
}

// ambiguous refuses what another reader could take for something else.
func ambiguous(found Type, content []byte) error {
	refuse := func(what string) error {
		return events.InvalidArgument("data", "by its content the file is "+string(found)+", but "+what, allowed())
	}
	switch found {
	case PDF:
		// The library finds the mark anywhere in the first KiB, as readers do:
		// behind the head of a program, a picture or a page.
		if !bytes.HasPrefix(content, []byte("%PDF-")) {
			return refuse("it does not begin as one")
		}
	case JSON, CSV, Mail, Plain:
		if i := slices.IndexFunc(content, control); i >= 0 {
			return refuse("it has control characters, so it is not text, or not in UTF-8 or a charset of single bytes")
		}
	case JPEG, PNG, WebP:
	}
	// An archive is read from its end, so it fits behind anything.
	if _, err := zip.NewReader(bytes.NewReader(content), int64(len(content))); err == nil {
		return refuse("it is a ZIP archive as well")
	}
	return nil
}

// control: what no text has. Escape sequences are among it: a terminal obeys
// them.
func control(b byte) bool {
	switch b {
	case '\t', '\n', '\r', '\f':
		return false
	}
	return b < 0x20 || b == 0x7f
}

func allowed() string {
	words := make([]string, 0, len(Types()))
	for _, t := range Types() {
		words = append(words, string(t))
	}
	return "allowed: " + strings.Join(words, ", ")
}
