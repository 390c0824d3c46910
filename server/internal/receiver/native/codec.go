package native

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// fast is a message with vtprotobuf's methods.
type fast interface {
	SizeVT() int
	MarshalToSizedBufferVT(data []byte) (int, error)
	UnmarshalVT(data []byte) error
}

// Codec is gRPC's protobuf codec with generated code in place of reflection, in
// pooled buffers; for grpc.ForceServerCodecV2 and grpc.ForceCodecV2. Messages of
// other services (health, reflection) take the usual way. A [Raw] takes any message
// as it came.
type Codec struct{}

// Name is that of the standard codec: the bytes are the same.
func (Codec) Name() string { return grpcproto.Name }

// Marshal implements [encoding.CodecV2].
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if answer, ok := v.(*Answer); ok {
		return answer.marshal()
	}
	m, ok := v.(fast)
	if !ok {
		return standard().Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		data := make([]byte, size)
		if _, err := m.MarshalToSizedBufferVT(data); err != nil {
			return nil, fmt.Errorf("marshal %T: %w", v, err)
		}
		return mem.BufferSlice{mem.SliceBuffer(data)}, nil
	}
	pool := mem.DefaultBufferPool()
	data := pool.Get(size)
	if _, err := m.MarshalToSizedBufferVT((*data)[:size]); err != nil {
		pool.Put(data)
		return nil, fmt.Errorf("marshal %T: %w", v, err)
	}
	return mem.BufferSlice{mem.NewBuffer(data, pool)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(fast); !ok {
		if _, ok := v.(*Raw); !ok {
			return standard().Unmarshal(data, v)
		}
	}
	whole := Raw{data.MaterializeToBuffer(mem.DefaultBufferPool())}
	if raw, ok := v.(*Raw); ok {
		*raw = whole
		return nil
	}
	defer whole.Free()
	return whole.Decode(v)
}

// standard is gRPC's own codec; importing its package registers it.
func standard() encoding.CodecV2 { return encoding.GetCodecV2(grpcproto.Name) }
