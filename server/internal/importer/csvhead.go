package importer

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// maxRow bounds a row: a quote that is not closed makes one of the whole file.
	maxRow     = 16 << 20
	maxColumns = 1 << 16
)

var errLongRow = errors.New("a row is too long")

// rowGuard counts the bytes of a row.
type rowGuard struct {
	io.Reader
	bytes int
}

func (g *rowGuard) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	if g.bytes += n; g.bytes > maxRow {
		return 0, errLongRow
	}
	return n, err
}

// noHeader says why there is no line of column names.
func noHeader(err error) error {
	switch {
	case errors.Is(err, errLongRow):
		return model.Errorf(model.CodeInvalid, "line 1: it has more than %d MiB", maxRow>>20).WithHint("%s", headerHint)
	case errors.Is(err, io.EOF):
		return model.Errorf(model.CodeInvalid, "it has no line of column names").WithHint("%s", headerHint)
	}
	return err
}

const headerHint = "the first line names the columns: step,loss,accuracy"

// checkText refuses what is no text with a line of column names. A NUL and bytes that are
// no UTF-8 tell; further down a text of a cell may hold anything.
func checkText(head []byte) error {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	kind := ""
	if sniffed := http.DetectContentType(head); !strings.HasPrefix(sniffed, "text/") && sniffed != "application/octet-stream" {
		kind = " (" + sniffed + ")"
	}
	at := bytes.IndexByte(head, 0)
	name := strings.Map(func(r rune) rune {
		if r == '\t' || r == '\r' {
			return ' '
		}
		return r
	}, string(first))
	switch {
	case len(head) == 0:
		return model.Errorf(model.CodeInvalid, "it is empty").WithHint("%s", headerHint)
	case at >= 0:
		return model.Errorf(model.CodeInvalid, "line %d: a NUL byte: it is no table but binary data%s", 1+bytes.Count(head[:at], []byte("\n")), kind).
			WithHint("if it is UTF-16 without a byte order mark, save it as UTF-8")
	case !utf8.Valid(first) && len(first) < len(head):
		return model.Errorf(model.CodeInvalid, "line 1: it is no text in UTF-8%s", kind).WithHint("if it is a table, save it as UTF-8: iconv -f WINDOWS-1252 -t UTF-8")
	case !model.IsClean(name) && len(first) < len(head):
		return model.Errorf(model.CodeInvalid, "line 1: it holds control characters%s", kind).WithHint("%s", headerHint)
	case kind == " (application/pdf)" || kind == " (application/postscript)":
		return model.Errorf(model.CodeInvalid, "line 1: it is no table%s", kind)
	}
	return checkMarkup(bytes.TrimSpace(head))
}

// checkMarkup refuses JSON, HTML and XML.
func checkMarkup(text []byte) error {
	what := ""
	switch kind := http.DetectContentType(text); {
	case strings.HasPrefix(kind, "text/html"):
		what = "HTML"
	case strings.HasPrefix(kind, "text/xml"):
		what = "XML"
	case len(text) > 0 && text[0] == '{', len(text) > 1 && text[0] == '[' && bytes.IndexByte([]byte(" \r\n{[\"0123456789-]"), text[1]) >= 0:
		what = "JSON"
	}
	if what == "" {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "line 1: it is %s, no table", what).WithHint("%s", headerHint)
}

// checkHeader refuses a first line of numbers: it is a row, and its names are missing.
// pandas numbers columns from 0 behind the empty name of its index.
func checkHeader(header []string) error {
	if len(header) > maxColumns {
		return model.Errorf(model.CodeInvalid, "line 1: it names %d columns, at most %d are read", len(header), maxColumns)
	}
	named := func(name string) bool {
		_, isNumber := number(strings.TrimSpace(name))
		return !isNumber && strings.TrimSpace(name) != ""
	}
	if slices.ContainsFunc(header, named) || header[0] == "" && len(header) > 1 && header[1] == "0" {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "line 1: it holds numbers, no names of columns").WithHint("%s; add such a line", headerHint)
}
