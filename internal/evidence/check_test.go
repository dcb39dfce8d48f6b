package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"tallystick/pkg/events"
)

const pdf = "%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\n%%EOF\n"

// picture is a real one, as the standard library writes it.
func picture(t testing.TB, kind Type) string {
	t.Helper()
	var b bytes.Buffer
	img := image.NewGray(image.Rect(0, 0, 8, 8))
	var err error
	switch kind {
	case PNG:
		err = png.Encode(&b, img)
	case JPEG:
		err = jpeg.Encode(&b, img, nil)
	case WebP: // one pixel, lossless
		raw, bad := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
		b.Write(raw)
		err = bad
	default:
		t.Fatal(kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func archive(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range files {
		if f, err := z.Create(name); err != nil {
			t.Fatal(err)
		} else if _, err := f.Write([]byte("<x/>")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTypes: what a file is, whatever it is called; "" has no ending to
// contradict.
func TestTypes(t *testing.T) {
	t.Parallel()
	mail := "Return-Path: <a@example.org>\r\nFrom: a@example.org\r\nSubject: invoice\r\n\r\nSee attached.\r\n"
	for _, c := range []struct {
		names, content string
		want           Type
	}{
		{" invoice invoice.pdf INVOICE.PDF a.exe.pdf Nr.7.pdf", pdf, PDF},
		{" a.png", picture(t, PNG), PNG},
		{" a.jpg a.JPEG", picture(t, JPEG), JPEG},
		{" a.webp", picture(t, WebP), WebP},
		{" a.txt a.log a.md a.csv a.eml", "The provider confirmed 12 dollars.\n", Plain},
		{" a.txt a.csv", "caf\xe9 in a charset of single bytes: 12 \x80\n", Plain},
		{" a.txt", "\ufeffwith a byte order mark\n", Plain},
		{" a.csv a.txt", "day,cost\n2026-11-30,12\n2026-12-01,13\n", CSV},
		{" a.csv", "day;cost\n2026-11-30;12\n", Plain},
		{" a.json a.txt", `{"cost": 12}`, JSON},
		{" a.json", `{"type":"Feature","geometry":null,"properties":{}}`, JSON},
		{" a.json", `{"log":{"version":"1.2","creator":{},"entries":[]}}`, JSON},
		{" a.eml a.txt", mail, Mail},
	} {
		for _, name := range strings.Split(c.names, " ") {
			if got, err := Check(name, []byte(c.content)); err != nil || got != c.want {
				t.Errorf("%q with %.20q: %q, %v; want %s", name, c.content, got, err, c.want)
			}
		}
	}
}

// TestRefused: neither a name nor a second nature makes a file something else.
func TestRefused(t *testing.T) {
	t.Parallel()
	exe := "MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00" + strings.Repeat("\x00", 200)
	page := "<!DOCTYPE html><html><script>alert(1)</script></html>"
	svg := `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	long := strings.Repeat("a line of text\n", 1000)
	pngs, jpegs := picture(t, PNG), picture(t, JPEG)
	zips := archive(t, "a.txt")
	for _, c := range []struct{ what, name, content, field, says string }{
		{"zip", "invoice.pdf", zips, "data", "application/zip"},
		{"exe", "invoice.pdf", exe, "data", "which is not allowed"},
		{"exe without a name", "", exe, "data", "which is not allowed"},
		{"elf", "a.txt", "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 60), "data", "which is not allowed"},
		{"html", "invoice.pdf", page, "data", "text/html"},
		{"html", "table.csv", page, "data", "text/html"},
		{"html", "", page, "data", "text/html"},
		{"svg", "a.png", svg, "data", "image/svg+xml"},
		{"svg", "a.txt", svg, "data", "image/svg+xml"},
		{"script", "a.txt", "#!/bin/sh\nrm -rf /\n", "data", "which is not allowed"},
		{"php", "a.txt", "<?php system('x');", "data", "which is not allowed"},
		{"xlsx", "a.xlsx", archive(t, "[Content_Types].xml", "xl/workbook.xml"), "data", "which is not allowed"},
		{"gif", "a.png", "GIF89a\x01\x00\x01\x00\x00\x00\x00;", "data", "image/gif"},
		{"noise", "a.txt", "\x01\x02\x03\x04noise\x00\xff", "data", "which is not allowed"},

		{"png called pdf", "invoice.pdf", pngs, "name", "contradicts"},
		{"pdf called png", "a.png", pdf, "name", "contradicts"},
		{"text called pdf", "invoice.pdf", "an invoice", "name", "contradicts"},
		{"json called csv", "a.csv", `{"a":1}`, "name", "contradicts"},
		{"text called json", "a.json", "no JSON at all", "name", "contradicts"},
		{"json that breaks off called json", "a.json", `{"a":"` + strings.Repeat("x", 9000), "name", "contradicts"},
		{"pdf called exe", "invoice.pdf.exe", pdf, "name", "no ending .exe"},
		{"text called html", "a.html", "text", "name", "no ending .html"},
		{"a dot at the end", "invoice.pdf.", pdf, "name", "no ending ."},
		{"dots", "..", pdf, "name", "no ending ."},
		{"path", "../invoice.pdf", pdf, "name", "must have"},
		{"backslash", `c:\invoice.pdf`, pdf, "name", "must have"},
		{"control", "a\nb.pdf", pdf, "name", "must have"},
		{"turned", "a\u202efdp.exe", pdf, "name", "must have"},
		{"long", strings.Repeat("n", 125) + ".pdf", pdf, "name", "must have"},

		{"pdf and zip", "invoice.pdf", pdf + zips, "data", "ZIP"},
		{"png and zip", "a.png", pngs + zips, "data", "ZIP"},
		{"jpeg and zip", "a.jpg", jpegs + zips, "data", "ZIP"},
		{"text and zip", "a.txt", long + zips, "data", "control characters"},
		{"exe and pdf", "invoice.pdf", exe + pdf, "data", "begin"},
		{"html and pdf", "invoice.pdf", page + pdf, "data", "begin"},
		{"png and pdf", "a.png", pngs[:len(pngs)-12] + pdf, "data", "begin"},
		{"text, then a program", "a.txt", long + exe, "data", "control characters"},
		{"csv, then noise", "a.csv", strings.Repeat("a,b\n", 3000) + "\x00", "data", "control characters"},
		{"escape sequence", "a.txt", "harmless \x1b[2J", "data", "control characters"},
		{"utf-16", "a.txt", "\xff\xfeh\x00i\x00", "data", "control characters"},
		{"nothing", "a.txt", "", "data", "empty"},
	} {
		got, err := Check(c.name, []byte(c.content))
		var e *events.Error
		if !errors.As(err, &e) || e.Code != events.CodeInvalidArgument || e.Field != c.field || !strings.Contains(e.Message, c.says) || got != "" {
			t.Errorf("%s as %q: %q, %v; want field %s, %q", c.what, c.name, got, err, c.field, c.says)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	most := append([]byte(pdf), bytes.Repeat([]byte{'\n'}, events.MaxEvidenceBytes-len(pdf))...)
	if got, err := Check("a.pdf", most); err != nil || got != PDF {
		t.Errorf("10 MiB: %s, %v", got, err)
	}
	_, err := Check("a.pdf", append(most, '\n'))
	if !errors.Is(err, events.EvidenceTooLarge()) {
		t.Errorf("10 MiB and one: %v", err)
	}
}

// FuzzCheck: nothing panics, only what is allowed is found, and the same
// content is the same whatever the name.
func FuzzCheck(f *testing.F) {
	for _, content := range []string{pdf, picture(f, PNG), picture(f, JPEG), picture(f, WebP), "a,b\n1,2\n", `{"a":[1]}`, "text", archive(f, "x"), "From: a\nTo: b\n"} {
		f.Add("a.pdf", []byte(content))
		f.Add("", []byte(content))
	}
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		bare, bareErr := Check("", content)
		if (bareErr == nil) != slices.Contains(Types(), bare) {
			t.Fatalf("found %q, %v", bare, bareErr)
		}
		got, err := Check(name, content)
		if err == nil && got != bare {
			t.Fatalf("as %q it is %s, and %s without a name", name, got, bare)
		}
		var e *events.Error
		for _, err := range []error{err, bareErr} {
			if err != nil && (!errors.As(err, &e) || e.Field == "" || e.Message == "") {
				t.Fatalf("refused with %v", err)
			}
		}
	})
}
