package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Formats a report is written in.
const (
	FormatJSON = "json"
	FormatCSV  = "csv"
	FormatHTML = "html"
)

// Formats lists them.
func Formats() []string { return []string{FormatJSON, FormatCSV, FormatHTML} }

// WriteJSON writes the document that schema/report.json describes.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// Render writes a report in a format.
func (r *Report) Render(format string) ([]byte, error) {
	var b bytes.Buffer
	var err error
	switch format {
	case FormatJSON:
		err = r.WriteJSON(&b)
	case FormatCSV:
		err = r.WriteCSV(&b)
	case FormatHTML:
		err = r.WriteHTML(&b)
	default:
		err = fmt.Errorf("no format %q", format)
	}
	return b.Bytes(), err
}
