package native_test

import (
	"fmt"
	"strings"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
)

// longest is a series with as long a name as there may be.
func longest(id uint32, kind model.Kind) *kymogramv1.SeriesDefinition {
	s := &kymogramv1.SeriesDefinition{Id: id, Metric: strings.Repeat("m", 1<<10), Kind: uint32(kind), Labels: map[string]string{}}
	for i := range 64 {
		s.Labels[fmt.Sprintf("%02d%s", i, strings.Repeat("n", 126))] = strings.Repeat("v", 1<<10)
	}
	return s
}

// apart are groups of one row each, of one series.
func apart(n int) (groups []*kymogramv1.RowGroup) {
	for i := range n {
		groups = append(groups, &kymogramv1.RowGroup{TimeNs: []int64{1}, Seq: []uint32{uint32(i)}, Columns: []*kymogramv1.Column{{Series: 1, Floats: []float64{1}}}})
	}
	return groups
}

// A column takes 20 bytes, the name of its series 74 KB: it is made once a stream, not once a
// column. A batch of 1.9 MB took 3.2 GB.
func TestNamesAreNotMadeForEachColumn(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	const rows = 800
	s := start(t).open(1)
	first := uint64(1)
	send := func() {
		s.batch(&kymogramv1.Batch{First: first, Last: first + rows - 1, Series: []*kymogramv1.SeriesDefinition{longest(1, model.KindFloat)}, Groups: apart(rows)})
		first += rows
		s.acked(first - 1)
	}
	if got := cost.Allocated(send); got > 32<<20 {
		t.Errorf("%d MiB are allocated for %d points", got>>20, rows)
	}
}

// A group of one row takes 45 bytes, and lists of groups that grew took 3 KB more for each.
func TestSmallGroupsTakeLittle(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	const rows = 10_000
	s := start(t).open(1)
	first := uint64(1)
	send := func() {
		s.batch(&kymogramv1.Batch{First: first, Last: first + rows - 1, Series: []*kymogramv1.SeriesDefinition{{Id: 1, Metric: "m", Kind: 1}}, Groups: apart(rows)})
		first += rows
		s.acked(first - 1)
	}
	if got := cost.Allocated(send); got > 3_500*rows {
		t.Errorf("%d bytes are allocated for each group", got/rows)
	}
}

func TestTooManyNamesAtOnce(t *testing.T) {
	s := start(t).open(1)
	s.batch(&kymogramv1.Batch{First: 1, Last: 1_000, Series: []*kymogramv1.SeriesDefinition{longest(1, model.KindFloat)}, Groups: apart(1_000)})
	s.failed(model.CodeTooLarge)
}

func TestTooManyUpdatesAtOnce(t *testing.T) {
	s := start(t).open(1)
	b := &kymogramv1.Batch{First: 1, Last: 10_001}
	for seq := b.First; seq <= b.Last; seq++ {
		b.TypedUpdates = append(b.TypedUpdates, &kymogramv1.Update{Op: "gone", Seq: seq})
	}
	s.batch(b)
	s.failed(model.CodeTooLarge)
}

// An ack stays far smaller than what it refuses: 1 MB of values was answered with 55 MB.
func TestRefusalsAreShort(t *testing.T) {
	const rows = 2_000
	s := start(t).open(1)
	name := strings.Repeat("m", 1<<10)
	text := &kymogramv1.Column{Series: 2}
	g := &kymogramv1.RowGroup{Columns: []*kymogramv1.Column{text}}
	for i := range rows {
		g.TimeNs, g.Seq, text.Texts = append(g.TimeNs, 1), append(g.Seq, uint32(i+1)), append(text.Texts, "")
	}
	s.batch(&kymogramv1.Batch{
		First: 1, Last: rows + 1,
		Series: []*kymogramv1.SeriesDefinition{{Id: 1, Metric: name, Kind: uint32(model.KindFloat)}, {Id: 2, Metric: name, Kind: uint32(model.KindText)}},
		Groups: []*kymogramv1.RowGroup{{TimeNs: []int64{1}, Seq: []uint32{0}, Columns: []*kymogramv1.Column{{Series: 1, Floats: []float64{1}}}}, g},
	})
	if ack := s.acked(rows + 1); len(ack.Refused) != rows || ack.SizeVT() > 150*rows {
		t.Errorf("%d refusals take %d bytes", len(ack.Refused), ack.SizeVT())
	}
}
