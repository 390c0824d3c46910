package native

import (
	"reflect"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// Raw is a message as it came. Its weight is known before anything is made of it.
type Raw struct{ data mem.Buffer }

// NewRaw takes the bytes over.
func NewRaw(data mem.BufferSlice) Raw {
	defer data.Free()
	return Raw{data.MaterializeToBuffer(mem.DefaultBufferPool())}
}

// Free gives the bytes back.
func (r *Raw) Free() {
	if r.data != nil {
		r.data.Free()
		r.data = nil
	}
}

// Weigh is what the message and all that is made of it take in memory, once it is read as
// a message of the type of into. Its own size is at most limit, and the weight at most
// memory.
func (r *Raw) Weigh(into any, limit, memory int) (sum int, err error) {
	size := r.data.Len()
	if size > limit {
		return size, model.Errorf(model.CodeTooLarge, "the message has %d bytes, at most %d here", size, limit)
	}
	if m, ok := into.(proto.Message); ok {
		if shape := shapes[m.ProtoReflect().Descriptor().FullName()]; shape != nil {
			sum, err = shape.Of(r.data.ReadOnlyData(), memory-size)
		}
	}
	sum += size
	switch {
	case err != nil:
		return sum, unread(err)
	case sum > memory:
		return sum, model.Errorf(model.CodeTooLarge, "the message of %d bytes would take more than %d MiB of memory", size, memory>>20).
			WithHint("Send fewer rows, series or updates at once.")
	}
	return sum, nil
}

// Decode reads the message. Generated code copies what it keeps.
func (r *Raw) Decode(into any) error {
	var err error
	if m, ok := into.(interface{ UnmarshalVT(data []byte) error }); ok {
		err = m.UnmarshalVT(r.data.ReadOnlyData())
	} else {
		err = standard().Unmarshal(mem.BufferSlice{r.data}, into)
	}
	if err != nil {
		return unread(err)
	}
	return nil
}

func unread(err error) *model.Error {
	return model.Errorf(model.CodeInvalid, "the message cannot be read: %v", err).
		WithHint("This is a fault of the client; nothing of the message was stored.")
}

// shapes are those of all messages that a client sends.
var shapes = newShapes()

func newShapes() map[protoreflect.FullName]*weight.Shape {
	out := map[protoreflect.FullName]*weight.Shape{}
	for _, file := range []protoreflect.FileDescriptor{kymogramv1.File_kymogram_v1_ingest_proto, kymogramv1.File_kymogram_v1_runs_proto, kymogramv1.File_kymogram_v1_query_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				name := methods.Get(j).Input().FullName()
				if t, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
					out[name] = weight.NewShape(t.New().Interface(), extra(), texts())
				}
			}
		}
	}
	return out
}

// extra is what this package and ingest make of the parts of a message.
func extra() weight.Extra {
	const (
		entry   = 256 // of the stream's series
		verdict = 320 // of a row or an update that is refused
	)
	return weight.Extra{
		"kymogram.v1.OpenRequest":      sizeOf[model.OpenRequest](),
		"kymogram.v1.SeriesDefinition": sizeOf[definition]() + entry,
		"kymogram.v1.RowGroup":         sizeOf[model.RowGroup](),
		"kymogram.v1.RowGroup.time_ns": verdict,
		"kymogram.v1.RowGroup.seq":     sizeOf[uint64](),
		"kymogram.v1.AxisColumn":       sizeOf[model.AxisColumn](),
		"kymogram.v1.Column":           sizeOf[model.Column](),
		"kymogram.v1.Skipped":          sizeOf[model.Skipped](),
		"kymogram.v1.Update":           sizeOf[model.Update]() + verdict,
		"kymogram.v1.Value":            sizeOf[model.Value](),
		"kymogram.v1.StringSet.values": sizeOf[string](),
		"kymogram.v1.Rendering":        sizeOf[model.Rendering](),
		"kymogram.v1.RenderingMark":    sizeOf[model.RenderingMark](),
	}
}

// texts are the fields of protocol 1.
func texts() weight.Texts {
	const update = 1 << 10 // with its raw text
	return weight.Texts{
		"kymogram.v1.Open.request":  {Depth: 2, Each: update},
		"kymogram.v1.Batch.updates": {Depth: 1, Each: update},
	}
}

func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }
