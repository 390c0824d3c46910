package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/query"
)

// The attempts of a run are written one by one: beside its text, a document of very many
// takes some bytes for each.
func TestManyAttemptsAreWrittenOneByOne(t *testing.T) {
	const attempts = 50_000
	d := &query.RunDetail{Detail: &catalog.Detail{}, Lineage: &query.Lineage{}}
	d.Attributes, d.EnvAttributes = noEntries[catalog.Attribute], noEntries[catalog.EnvAttribute]
	d.Writers, d.Events = noEntries[catalog.WriterInfo], noEntries[catalog.Event]
	for i := range attempts {
		d.Detail.Attempts = append(d.Detail.Attempts, model.Attempt{Number: uint32(i + 1), OpenedNs: int64(i)})
		d.Order = append(d.Order, uint32(attempts-i)) // the oldest counts most
	}
	document, err := httpapi.RunDocument(d, 8<<20)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Attempts []struct {
			Number     uint32
			Precedence int
			Opened     int64 `json:"opened_ns"`
		}
		Order []uint32 `json:"attempt_order"`
	}
	if err := json.Unmarshal(document, &doc); err != nil || len(doc.Attempts) != attempts || len(doc.Order) != attempts {
		t.Fatalf("%d attempts, %v", len(doc.Attempts), err)
	}
	for i, a := range doc.Attempts {
		if a.Number != uint32(i+1) || a.Precedence != attempts-i || a.Opened != int64(i) || doc.Order[i] != uint32(attempts-i) {
			t.Fatalf("attempt %d is %+v", i, a)
		}
	}
	var longest longestWrite
	if err := httpapi.WriteDocument(&longest, d); err != nil || longest > 128<<10 {
		t.Errorf("%d bytes are sent at once, %v", longest, err)
	}
}

// longestWrite is the length of the longest piece.
type longestWrite int

func (l *longestWrite) Write(p []byte) (int, error) {
	*l = max(*l, longestWrite(len(p)))
	return len(p), nil
}

func noEntries[T any](func(T, error) bool) {}
