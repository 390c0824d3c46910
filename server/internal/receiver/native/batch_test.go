package native

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/recorded"
	"github.com/kymogram/kymogram/internal/wire"
)

func example() *kymogramv1.Batch {
	return &kymogramv1.Batch{
		First: 10, Last: 14,
		Series: []*kymogramv1.SeriesDefinition{
			{Id: 1, Metric: "loss", Labels: map[string]string{"b": "2", "a": "1"}, Kind: 1},
			{Id: 2, Metric: "text", Scale: "EPISODE", Kind: 3},
		},
		Groups: []*kymogramv1.RowGroup{
			{
				Axes: []*kymogramv1.AxisColumn{{Axis: 1, Relative: true, Values: []int64{0, 1}}, {Axis: 2, Values: []int64{5, 6}}}, TimeNs: []int64{7, 8}, Seq: []uint32{0, 2},
				Columns: []*kymogramv1.Column{{Series: 1, Floats: []float64{1, math.Inf(1)}}},
			},
			{TimeNs: []int64{9}, Seq: []uint32{3}, Columns: []*kymogramv1.Column{{Series: 2, Texts: []string{"t"}}}},
		},
		Updates: []byte(`[{"op":"add_tags","tags":["x"],"seq":14},{"op":7,"seq":13}]`),
		Skipped: []*kymogramv1.Skipped{{First: 11, Last: 11, Reason: "torn", Points: 3}},
	}
}

// typed is the example in protocol 2.
func typed() *kymogramv1.Batch {
	b := example()
	b.Updates, b.TypedUpdates = nil, []*kymogramv1.Update{{Op: "add_tags", Tags: []string{"x"}, Seq: 14}, {Op: "set_attribute", Path: "p", Value: &kymogramv1.Value{}, Seq: 13}}
	return b
}

func TestDecode(t *testing.T) {
	d := newDecoder(NewDefinitions(definitionBytes).open(""))
	got, err := d.decode(example())
	if err != nil {
		t.Fatal(err)
	}
	if same, err := newDecoder(NewDefinitions(definitionBytes).open("")).decode(typed()); err != nil || !cmp.Equal(got, same) {
		t.Errorf("typed: %v\n%s", err, cmp.Diff(got, same))
	}
	loss := model.SeriesKey{Metric: "loss", Scale: "ML_STEP", Labels: []model.Label{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}}
	want := &model.Batch{
		First: 10, Last: 14,
		Groups: []model.RowGroup{
			{
				Axes: []model.AxisColumn{{Axis: "step", Relative: true, Values: []int64{0, 1}}, {Axis: "rl_step", Values: []int64{5, 6}}}, TimeNs: []int64{7, 8}, Seq: []uint64{10, 12},
				Columns: []model.Column{{Series: loss, Text: loss.String(), Kind: model.KindFloat, Floats: []float64{1, math.Inf(1)}}},
			},
			{TimeNs: []int64{9}, Seq: []uint64{13}, Columns: []model.Column{{Series: model.SeriesKey{Metric: "text", Scale: "EPISODE"}, Text: "text\x00EPISODE", Kind: model.KindText, Texts: []string{"t"}}}},
		},
		Updates: []model.Update{{Op: model.OpAddTags, Tags: []string{"x"}, Seq: 14}}, Unreadable: []uint64{13},
		Skipped: []model.Skipped{{First: 11, Last: 11, Reason: "torn", Points: 3}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Later batches use and repeat the definitions.
	if _, err := d.decode(example()); err != nil {
		t.Errorf("again: %v", err)
	}
	short := example()
	short.Series = nil
	if _, err := d.decode(short); err != nil {
		t.Errorf("without definitions: %v", err)
	}
}

func TestMalformedBatches(t *testing.T) {
	for name, change := range map[string]func(*kymogramv1.Batch){
		"no sequences":           func(b *kymogramv1.Batch) { b.First, b.Last = 0, 0 },
		"backwards":              func(b *kymogramv1.Batch) { b.Last = 9 },
		"an empty definition":    func(b *kymogramv1.Batch) { b.Series[0] = nil },
		"a kind of 0":            func(b *kymogramv1.Batch) { b.Series[0].Kind = 0 },
		"a kind of 257":          func(b *kymogramv1.Batch) { b.Series[0].Kind = 257 },
		"two definitions":        func(b *kymogramv1.Batch) { b.Series[1].Id = 1 },
		"an empty group":         func(b *kymogramv1.Batch) { b.Groups[0] = nil },
		"an empty axis":          func(b *kymogramv1.Batch) { b.Groups[0].Axes[0] = nil },
		"axis 0":                 func(b *kymogramv1.Batch) { b.Groups[0].Axes[0].Axis = 0 },
		"axis 11":                func(b *kymogramv1.Batch) { b.Groups[0].Axes[0].Axis = 11 },
		"an empty column":        func(b *kymogramv1.Batch) { b.Groups[0].Columns[0] = nil },
		"an unknown series":      func(b *kymogramv1.Batch) { b.Groups[0].Columns[0].Series = 9 },
		"a sequence behind":      func(b *kymogramv1.Batch) { b.Groups[0].Seq[0] = 5 },
		"a sequence that wraps":  func(b *kymogramv1.Batch) { b.First, b.Last = math.MaxUint64, math.MaxUint64 },
		"updates that are none":  func(b *kymogramv1.Batch) { b.Updates = []byte("{}") },
		"an update of no record": func(b *kymogramv1.Batch) { b.Updates = []byte(`[{"op":"gone"}]`) },
		"an update without JSON": func(b *kymogramv1.Batch) { b.Updates = []byte(`[1]`) },
		"a message of no record": func(b *kymogramv1.Batch) { b.TypedUpdates = []*kymogramv1.Update{{Op: "gone"}} },
	} {
		b := example()
		change(b)
		if _, err := newDecoder(NewDefinitions(definitionBytes).open("")).decode(b); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Definitions stay in memory as long as their streams. Where there is no space for more, the
// stream that has most ends, of the caller that has most: a client that opens another one
// comes through each time, whatever the others hold.
func TestDefinitionsMakeWay(t *testing.T) {
	const size = 1 << 20
	long := strings.Repeat("m", size/32)
	fill := func(d *decoder, from, to uint32) error {
		for id := from; id < to; id++ {
			b := &kymogramv1.Batch{First: 1, Last: 1, Series: []*kymogramv1.SeriesDefinition{{Id: id, Metric: long, Kind: 1}}}
			for range 2 { // defined again, it takes nothing
				if _, err := d.decode(b); err != nil {
					return err
				}
			}
		}
		return nil
	}
	ended := func(d *decoder) bool {
		select {
		case <-d.kept.gone:
			return true
		default:
			return false
		}
	}
	all := NewDefinitions(4 * size) // 127 of these series
	for range 3 {                   // one stream takes all there is, and is told to open another one
		one := newDecoder(all.open("a"))
		if err := fill(one, 0, 200); model.CodeOf(err) != model.CodeBusy || len(one.series) < 100 {
			t.Errorf("a stream with more than there is has %d series: %v", len(one.series), err)
		}
		one.kept.close()
	}
	most, less := newDecoder(all.open("a")), newDecoder(all.open("a"))
	if err := errors.Join(fill(most, 0, 100), fill(less, 0, 20)); err != nil {
		t.Fatal(err)
	}
	if err := fill(less, 20, 40); err != nil || !ended(most) || ended(less) {
		t.Errorf("a second stream of one caller: %v; the larger ended: %t", err, ended(most))
	}
	if err := fill(most, 100, 101); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("a stream that made way goes on: %v", err)
	}
	rest := make([]*decoder, 4)
	for i := range rest {
		rest[i] = newDecoder(all.open(strconv.Itoa(i)))
		if err := fill(rest[i], 0, 20+uint32(i)); err != nil {
			t.Errorf("another caller: %v", err)
		}
	}
	if err := fill(rest[0], 20, 25); err != nil || !ended(less) || ended(rest[1]) || ended(rest[2]) || ended(rest[3]) {
		t.Errorf("of five callers, the one that had most did not make way: %v", err)
	}
	for _, d := range slices.Concat(rest, []*decoder{most, less}) {
		d.kept.close()
	}
	if used := all.Stats().Used; used != 0 || len(all.streams) != 0 {
		t.Errorf("%d bytes of %d callers are held behind the end of all streams", used, len(all.streams))
	}
	list := make([]*kymogramv1.SeriesDefinition, 40)
	for i := range list {
		list[i] = &kymogramv1.SeriesDefinition{Id: uint32(i), Metric: long, Kind: 1}
	}
	if _, err := newDecoder(all.open("a")).decode(&kymogramv1.Batch{First: 1, Last: 1, Series: list}); model.CodeOf(err) != model.CodeTooLarge {
		t.Errorf("one batch with a quarter of all: %v", err)
	}
}

// Any bytes are either a batch whose parts fit together or a typed error.
func FuzzDecode(f *testing.F) {
	for _, b := range []*kymogramv1.Batch{example(), typed()} {
		seed, err := proto.Marshal(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: b}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	for _, m := range slices.Concat(recorded.First(), recorded.Second(), recorded.TooNew()) {
		f.Add(m.Data)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		checkWeight(t, data)
		checkWeight(t, bytes.Repeat(data, 1+min(64<<10/(len(data)+1), 1000)))
		var m kymogramv1.StreamRequest
		if (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &m) != nil {
			return
		}
		if open := m.GetOpen(); open != nil {
			if r, err := wire.ReadOpen(open); err == nil && len(r.Initial)+len(r.Ended) > len(data)/2 {
				t.Errorf("%d updates and %d writers of %d bytes", len(r.Initial), len(r.Ended), len(data))
			}
		}
		w := newDecoder(NewDefinitions(definitionBytes).open("")).message(&m)
		if w.err != nil {
			if code := model.CodeOf(w.err); code != model.CodeInvalid && code != model.CodeTooLarge {
				t.Errorf("%v has the code %s", w.err, code)
			}
			return
		}
		if w.batch == nil {
			return
		}
		// What is allocated is bounded by the message: an update takes 4 bytes of it.
		if n := len(w.batch.Updates) + len(w.batch.Unreadable); n > len(data)/4 {
			t.Errorf("%d updates of %d bytes", n, len(data))
		}
		for _, g := range w.batch.Groups {
			for _, seq := range g.Seq {
				if seq < w.batch.First || seq > w.batch.Last {
					t.Errorf("the sequence %d is outside %d to %d", seq, w.batch.First, w.batch.Last)
				}
			}
		}
	})
}

// The codec's bytes are those of protobuf's own.
func TestCodec(t *testing.T) {
	for _, size := range []int{0, 1 << 20} {
		b := example()
		b.Groups[1].Columns[0].Texts[0] = string(bytes.Repeat([]byte("x"), size))
		data, err := Codec{}.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		var plain, fast kymogramv1.Batch
		if err := proto.Unmarshal(data.Materialize(), &plain); err != nil {
			t.Fatal(err)
		}
		if err := (Codec{}).Unmarshal(data, &fast); err != nil {
			t.Fatal(err)
		}
		data.Free()
		for name, got := range map[string]*kymogramv1.Batch{"protobuf": &plain, "the codec": &fast} {
			if diff := cmp.Diff(b, got, protocmp.Transform()); diff != "" {
				t.Errorf("read by %s (-want +got):\n%s", name, diff)
			}
		}
	}
	if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer("\xff\xff")}, &kymogramv1.Batch{}); err == nil {
		t.Error("rubbish was read")
	}
}
