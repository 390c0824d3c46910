package native

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestFiveShapes: the bytes of one point in ARCHITECTURE.md, section "One record,
// five shapes", are those that the code writes.
func TestFiveShapes(t *testing.T) {
	const timeNs = 1_750_000_000_000_000_000
	record := spool.AppendPoint(nil, model.KindFloat, spool.FlagStep, 1, 7, timeNs, math.Float64bits(0.5))
	message := &kymogramv1.Batch{
		First: 2, Last: 2, Series: []*kymogramv1.SeriesDefinition{{Id: 1, Metric: "train/loss", Scale: model.ScaleStep, Kind: uint32(model.KindFloat)}},
		Groups: []*kymogramv1.RowGroup{{
			Axes: []*kymogramv1.AxisColumn{{Axis: spool.AxisStep, Values: []int64{7}}}, TimeNs: []int64{timeNs}, Seq: []uint32{0},
			Columns: []*kymogramv1.Column{{Series: 1, Floats: []float64{0.5}}},
		}},
	}
	wire, err := message.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	batch, err := newDecoder(NewDefinitions(definitionBytes).open("")).decode(message)
	if err != nil {
		t.Fatal(err)
	}
	log, segment := stored(t, batch)
	shown := hexIn(t, "One record, five shapes")
	for i, place := range [][]byte{record, wire, log, segment} {
		if i >= len(shown) || !bytes.Contains(place, shown[i]) {
			t.Errorf("shape %d is not in ARCHITECTURE.md:\n% x", i, place)
		}
	}
}

// stored are the last frame of the log and the segment that hold a batch.
func stored(t *testing.T, b *model.Batch) (log, segment []byte) {
	t.Helper()
	dir, ctx := t.TempDir(), t.Context()
	engine, err := local.Open(ctx, local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	b.Run, b.Writer, b.Attempt = model.RunID{1}, model.WriterID{2}, 1
	first := &model.Batch{Run: b.Run, Writer: b.Writer, Attempt: 1, First: 1, Last: 1}
	for _, err := range []error{
		engine.PutAttempt(ctx, b.Run, model.Attempt{Number: 1}), engine.PutWriter(ctx, b.Run, b.Writer, 1, nil),
		appended(engine.Append(ctx, first)), appended(engine.Append(ctx, b)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	log = only(t, dir, "wal", "*.wal")
	if err := engine.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return log[bytes.LastIndex(log, []byte("KGWL")):], only(t, dir, "segments", "*.kgs")
}

func appended(_ model.Ack, err error) error { return err }

func only(t *testing.T, path ...string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path...))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// hexIn lists the bytes that a section of ARCHITECTURE.md shows.
func hexIn(t *testing.T, title string) (out [][]byte) {
	t.Helper()
	text, err := os.ReadFile("../../../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("`([0-9a-f]{2}(?: [0-9a-f]{2}){7,})`").FindAllStringSubmatch(section, -1) {
		data, err := hex.DecodeString(strings.ReplaceAll(m[1], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}
