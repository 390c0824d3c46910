package native

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/internal/wire"
	"github.com/kymogram/kymogram/server/internal/weight"
)

const bodyLimit = 4 << 20

// within puts a message into fields, the innermost first.
func within(body []byte, fields ...protowire.Number) []byte {
	for _, f := range fields {
		body = protowire.AppendBytes(protowire.AppendTag(make([]byte, 0, len(body)+12), f, protowire.BytesType), body)
	}
	return body
}

// repeated is a message of one part over and over.
func repeated(size int, part []byte) []byte { return bytes.Repeat(part, size/len(part)) }

const (
	open, batch       = 1, 2 // of StreamRequest
	openTyped         = 3    // of Open
	initial           = 24   // of OpenRequest
	series, groups    = 3, 4 // of Batch
	updates, skipped  = 5, 6
	typedUpdates      = 8
	axes, times, seqs = 1, 2, 3 // of RowGroup
	columns           = 4
)

// hostile are messages of about a size that ask for as much memory as they can.
func hostile(size int) map[string][]byte {
	header := protowire.AppendVarint(protowire.AppendTag(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), 2, protowire.VarintType), 1<<40)
	header = append(header, within([]byte{1 << 3, 1, 2<<3 | 2, 1, 'm', 5 << 3, 1}, series)...)
	inBatch := func(part []byte, fields ...protowire.Number) []byte {
		return within(append(append([]byte{}, header...), within(repeated(size, part), fields...)...), batch)
	}
	inOpen := func(part []byte, fields ...protowire.Number) []byte {
		typed := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 2)
		return within(append(typed, within(within(repeated(size, part), fields...), openTyped)...), open)
	}
	definitions := []byte(nil)
	for id := uint64(0); len(definitions) < size; id++ {
		definitions = append(definitions, within(protowire.AppendVarint([]byte{5 << 3, 1, 1 << 3}, id), series)...)
	}
	labels := []byte(nil)
	for i := 0; len(labels) < size; i++ {
		labels = append(labels, within(within(binary.AppendUvarint(nil, uint64(i)), 1), 4)...)
	}
	badTime := binary.LittleEndian.AppendUint64(nil, 1<<63)
	return map[string][]byte{
		"typed updates":      inBatch(within([]byte{2 << 3, 1}, typedUpdates)),
		"unreadable updates": inBatch(within([]byte{2 << 3, 1, 5<<3 | 2, 0}, typedUpdates)),
		"JSON updates":       within(append(append([]byte{}, header...), within([]byte("["+strings.Repeat(`{"seq":1},`, size/10)+`{"seq":1}]`), updates)...), batch),
		"JSON numbers":       within(append(append([]byte{}, header...), within([]byte("["+strings.Repeat(`1,`, size/2)+`1]`), updates)...), batch),
		"JSON tags":          within(append(append([]byte{}, header...), within([]byte(`[{"seq":1,"tags":[`+strings.Repeat(`"",`, size/3)+`""]}]`), updates)...), batch),
		"row groups":         inBatch(within(nil, groups)),
		"axes":               inBatch(within([]byte{1 << 3, 1}, axes), groups),
		"columns":            inBatch(within([]byte{1 << 3, 1}, columns), groups),
		"times":              inBatch(append(protowire.AppendTag(nil, times, protowire.Fixed64Type), badTime...), groups),
		"sequences":          inBatch([]byte{1}, seqs, groups),
		"single sequences":   inBatch([]byte{seqs << 3, 1}, groups),
		"texts":              inBatch([]byte{4<<3 | 2, 0}, columns, groups),
		"documents":          inBatch([]byte{5<<3 | 2, 1, 0}, columns, groups),
		"definitions":        within(append(append([]byte{}, header...), definitions...), batch),
		"labels":             within(append(append([]byte{}, header...), within(labels, series)...), batch),
		"skipped":            inBatch(within(nil, skipped)),
		"tags":               inBatch([]byte{8<<3 | 2, 0}, typedUpdates),
		"a set":              inBatch([]byte{1<<3 | 2, 0}, 5, 5, typedUpdates),
		"marks":              inBatch(within(nil, 17), 12, typedUpdates),
		"unknown fields":     inBatch([]byte{15 << 3, 1}, groups),
		"spooled points":     inBatch([]byte{7 << 3, 1}),
		"initial":            inOpen(within(nil, initial)),
		"ended":              inOpen(within(nil, 21)),
		"JSON open":          within(append([]byte{2 << 3, 1}, within([]byte(`{"initial":[`+strings.Repeat(`{},`, size/3)+`{}]}`), 1)...), open),
	}
}

// read is what the server does with a message of a stream, up to ingest.
func read(data []byte, limit int) error {
	raw := Raw{mem.SliceBuffer(data)}
	var m kymogramv1.StreamRequest
	if _, err := raw.Weigh(&m, limit, weight.Times*limit); err != nil {
		return err
	}
	if err := raw.Decode(&m); err != nil {
		return err
	}
	if open := m.GetOpen(); open != nil {
		_, err := wire.ReadOpen(open)
		return err
	}
	return newDecoder(NewDefinitions(definitionBytes).open("")).message(&m).err
}

// A message of the largest size takes at most four times that in memory, whatever it repeats.
func TestMemoryOfAMessage(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for name, data := range hostile(bodyLimit - 1<<18) {
		var err error
		if got := cost.Allocated(func() { err = read(data, bodyLimit) }); got > weight.Times*bodyLimit {
			t.Errorf("%s: %d MiB are allocated for %d MiB (%v)", name, got>>20, len(data)>>20, err)
		}
	}
}

// What is weighed is at least what is allocated, also where the message is small enough.
func TestWeightOfAMessage(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for name, data := range hostile(256 << 10) {
		raw := Raw{mem.SliceBuffer(data)}
		sum, err := raw.Weigh(&kymogramv1.StreamRequest{}, 1<<30, 4<<30)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := cost.Allocated(func() { _ = read(data, 1<<30) })
		t.Logf("%s: %d weighed, %d allocated, %d bytes", name, sum, got, len(data))
		if got > uint64(sum) {
			t.Errorf("%s: %d bytes are allocated, %d were weighed", name, got, sum)
		}
	}
}

// checkWeight: reading takes at most the memory that was weighed, and time for the bytes.
func checkWeight(t *testing.T, data []byte) {
	t.Helper()
	const slack = 64 << 10 // of the stream, and of others in this process
	raw := Raw{mem.SliceBuffer(data)}
	sum, _ := raw.Weigh(&kymogramv1.StreamRequest{}, 1<<30, 4<<30)
	if got := cost.Allocated(func() { _ = read(data, 1<<30) }); got > uint64(sum+slack) {
		t.Errorf("%d bytes are allocated, %d were weighed for a message of %d", got, sum, len(data))
	}
	if took := cost.Time(func() { _ = read(data, 1<<30) }); cost.Fuzzing() && took > 10*time.Millisecond+time.Duration(sum)*50*time.Nanosecond {
		t.Errorf("%v for a message of %d bytes that weighs %d", took, len(data), sum)
	}
}

func TestAMessageThatIsTooHeavyIsNamed(t *testing.T) {
	err := read(hostile(bodyLimit - 1<<18)["row groups"], bodyLimit)
	if model.CodeOf(err) != model.CodeTooLarge || !strings.Contains(fmt.Sprint(err), "16 MiB") {
		t.Errorf("%v", err)
	}
}
