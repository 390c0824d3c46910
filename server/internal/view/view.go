// Package view reads view documents. A document is a page of panels, each with a question
// about a project's series and how the answer is drawn. Or it says how the page of the
// project shows its runs and charts.
//
// In: the JSON that a person or the page wrote. Out: a [Document] that keeps every rule
// of docs/format/view.md, and its one canonical text. Whoever stores or draws a view
// reads it with [Parse] first.
package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// The limits of a document. One that is beyond them is refused.
const (
	MaxBytes   = 256 << 10
	MaxPanels  = 200
	MaxMetrics = 20  // patterns of a panel
	MaxTop     = 200 // lines or rows of a panel
	maxText    = 2_000
	maxTitle   = 200
	maxList    = 20
)

// Format is the version of the documents that this package reads.
const Format = 1

// Document is a view: a title, and panels in the order in which they are shown.
type Document struct {
	Format      int    `json:"format"`
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	// Last is how far back the panels look at first, such as 24h; empty: at all points. A
	// reader may choose another range.
	Last string `json:"last,omitempty"`
	// Axes are what lines show of an axis at first, first and last value; all of it where an
	// axis is not named. A reader may zoom elsewhere.
	Axes   map[model.Axis][]int64 `json:"axes,omitempty"`
	Panels []Panel                `json:"panels,omitempty"`
	// Page is how the page of the project shows runs and charts; such a view has no panels.
	Page json.RawMessage `json:"page,omitempty"`
}

// Panel is a question and how its answer is drawn.
type Panel struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Kind        Kind   `json:"kind"`
	Query       Query  `json:"query"`
	// Axis is what the lines are drawn over; empty: step where a series has it, else time.
	Axis model.Axis `json:"axis,omitempty"`
	// Reduce makes one value of the points of a group; empty: last. Lines use it to choose
	// the Top ones.
	Reduce Reduce `json:"reduce,omitempty"`
	// By names what series of one group share: run, metric, or label.NAME. nil: each
	// series is a group. Empty: all series are one group.
	By *[]string `json:"by,omitempty"`
	// Columns is the name whose values are a table's columns; empty: metric.
	Columns string `json:"columns,omitempty"`
	// Order of the groups by their value; empty: by name.
	Order Order `json:"order,omitempty"`
	// Top keeps the first of that order; 0 keeps all.
	Top  int    `json:"top,omitempty"`
	Unit string `json:"unit,omitempty"`
}

// Query selects series of a project: those of the runs that match, whose metric is one of
// Metrics, and whose labels match. In a pattern * stands for any text without a slash
// and ** for any text.
type Query struct {
	Metrics []string          `json:"metrics"`
	Runs    string            `json:"runs,omitempty"` // empty: all
	Tags    []string          `json:"tags,omitempty"` // that a run must have
	Labels  map[string]string `json:"labels,omitempty"`
}

// Kind is how a panel is drawn.
type Kind string

// The kinds.
const (
	Line  Kind = "line"  // a line for each series over an axis
	Stat  Kind = "stat"  // a number for each group
	Table Kind = "table" // a row for each group
)

// Reduce is how the points of a group become one value. NaN and infinite points count
// in last and nan only.
type Reduce string

// The reductions.
const (
	Last  Reduce = "last"  // the newest
	Mean  Reduce = "mean"  // of the finite points
	Min   Reduce = "min"   // of the finite points
	Max   Reduce = "max"   // of the finite points
	Count Reduce = "count" // finite points
	NaN   Reduce = "nan"   // points that are NaN
	Time  Reduce = "time"  // of the newest point, in nanoseconds
)

// Order sorts groups by their value.
type Order string

// The orders.
const (
	Falling Order = "desc"
	Rising  Order = "asc"
)

// Parse reads a document strictly. An error is a model.Error that names the place.
func Parse(text []byte) (*Document, error) {
	if len(text) > MaxBytes {
		return nil, model.Errorf(model.CodeTooLarge, "the view has %d bytes, the most is %d", len(text), MaxBytes).
			WithHint("split it into several views")
	}
	if err := checkShape(text); err != nil {
		return nil, invalid("", "%s", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var doc Document
	if err := dec.Decode(&doc); err != nil {
		return nil, invalid("", "the view is not the JSON expected: %s", wrongKind(err))
	}
	if err := doc.check(); err != nil {
		return nil, err
	}
	return &doc, nil
}

// Text is the document as it is stored: the same text for the same document.
func (d *Document) Text() []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(d) // texts, numbers and lists of them always encode
	return out.Bytes()
}

// Tag names a text: who changes a view says with it which text it changes.
func Tag(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// CheckName fails for a name that no view may have.
func CheckName(name string) error {
	plain := func(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	ok := len(name) >= 1 && len(name) <= 100 && plain(name[0])
	for i := range len(name) {
		ok = ok && (plain(name[i]) || name[i] == '-' || name[i] == '_' || name[i] == '.')
	}
	if !ok {
		return model.Errorf(model.CodeInvalid, "%q is no name of a view", model.Clip(name)).
			WithHint("1 to 100 letters of a–z, digits, and . _ - inside it")
	}
	return nil
}

func invalid(at, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if at != "" {
		text = at + " " + text
	}
	return model.Errorf(model.CodeInvalid, "%s", text).WithHint("docs/format/view.md lists the fields of a view")
}
