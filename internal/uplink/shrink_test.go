package uplink

import (
	"fmt"
	"os"
	"strings"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// A server that finds a batch too large gets it in smaller ones. A record that is too
// large alone is kept and counted, and all others arrive.
func TestTooLarge(t *testing.T) {
	s := startServer(t)
	s.large = func(b *kymogramv1.Batch) bool {
		for _, u := range b.TypedUpdates {
			if u.Text == "large" {
				return true
			}
		}
		rows := 0
		for _, g := range b.Groups {
			rows += len(g.Seq)
		}
		return rows > 20
	}
	f := paced(t, s, spool.Pace{FirstBackoffMs: 1, LastBackoffMs: 2})
	for i := range int64(300) {
		f.point("loss", i, 0.5)
	}
	f.ok(f.w.Updates([]model.Update{{Op: model.OpSetDescription, Text: "large"}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpSetDescription, Text: "kept"}}))
	for i := range int64(300) {
		f.point("loss", 300+i, 0.5)
	}
	f.close()
	f.sync(Options{})
	if n := len(s.stored()); n != 600 {
		t.Errorf("%d points of 600 are stored", n)
	}
	if len(s.updates) == 0 || s.updates[0].Text != "kept" {
		t.Errorf("updates %+v", s.updates)
	}
	if len(s.skipped) != 1 || s.skipped[0].Reason != reasonLarge {
		t.Errorf("skipped %+v", s.skipped)
	}
	rejected, err := os.ReadFile(f.folder.RejectedPath(f.w.ID))
	if err != nil || strings.Count(string(rejected), "\n") != 1 || !strings.Contains(string(rejected), string(model.CodeTooLarge)) {
		t.Errorf("rejected %s, %v", rejected, err)
	}
}

// Many small updates come in batches that a server takes: none is sent twice.
func TestManyUpdates(t *testing.T) {
	s := startServer(t)
	s.large = func(b *kymogramv1.Batch) bool {
		if n := len(b.TypedUpdates); n > 10_000 {
			t.Errorf("a batch has %d updates", n)
			return true
		}
		return false
	}
	f := paced(t, s, spool.Pace{MaxBytes: 1 << 20})
	const many = 30_000
	for range many {
		f.ok(f.w.Updates([]model.Update{{Op: model.OpAddTags, Tags: []string{"a"}}}))
	}
	f.close() // an update too
	f.sync(Options{})
	if len(s.updates) != many+1 {
		t.Errorf("%d updates of %d arrived", len(s.updates), many+1)
	}
}

// A call that begins many series is delivered, however many their definitions are: on the
// stream that sees them for the first time, and on one that goes on after them. A record
// that is too large all the same costs itself and not the definitions before it.
func TestManyNewSeries(t *testing.T) {
	s := startServer(t)
	s.large = func(b *kymogramv1.Batch) bool {
		rows := 0
		for _, g := range b.Groups {
			rows += len(g.Seq)
		}
		return len(b.Series) > 200 || rows > 1
	}
	s.batch = func(n int) fault {
		if n == 30 {
			return reset // the next stream goes on after the definitions
		}
		return none
	}
	f := paced(t, s, spool.Pace{MaxBytes: 1, FirstBackoffMs: 1, LastBackoffMs: 2})
	const many = 2_000
	all, ids := make([]*spool.Series, many), make([]uint32, many)
	for i := range all {
		all[i] = f.of(model.KindFloat, fmt.Sprintf("metric/%04d", i))
		ids[i] = all[i].ID
	}
	block := func(step int64, rows int) {
		f.ok(f.w.Block(all, &spool.Block{
			Kind: model.KindFloat, Rows: rows, Series: ids, Values: make([]uint64, many*rows), Time: spool.Column{Mode: spool.ModeConstant, Values: []int64{1}},
			Axes: []spool.BlockAxis{{Axis: spool.AxisStep, Column: spool.Column{Mode: spool.ModeLinear, Values: []int64{step}}}},
		}))
	}
	block(0, 2)
	for step := range int64(20) {
		block(1+step, 1)
	}
	f.close()
	f.sync(Options{})
	if n := len(s.stored()); n != 20*many {
		t.Errorf("%d points of %d are stored", n, 20*many)
	}
	if len(s.skipped) != 1 || s.skipped[0].Points != 2*many || s.skipped[0].Reason != reasonLarge {
		t.Errorf("skipped %+v", s.skipped)
	}
	if s.batches > 500 {
		t.Errorf("%d batches", s.batches)
	}
}

// Tags and sets count for the size of a batch, else it outgrows every limit.
func TestSizeOfUpdates(t *testing.T) {
	b := newBuilder(2)
	tags := make([]string, 1_000)
	for i := range tags {
		tags[i] = strings.Repeat("x", 200)
	}
	for seq := uint64(1); b.size < batchBytes; seq++ {
		b.add(&spool.Record{Type: spool.TypeUpdate, Seq: seq, Updates: []model.Update{
			{Op: model.OpAddTags, Tags: tags}, {Op: model.OpSetAttribute, Path: "config/a", Value: model.SetValue(tags)},
		}}, nil)
	}
	m, err := b.message()
	if err != nil {
		t.Fatal(err)
	}
	if size := m.SizeVT(); size > 2*batchBytes {
		t.Errorf("a batch of %d bytes", size)
	}
}
