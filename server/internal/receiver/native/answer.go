package native

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// answerPiece is how much of an answer leaves at once, as far as its sender can see.
const answerPiece = 64 << 10

// trackedSize is more than gRPC takes for too small to give back.
const trackedSize = 2 << 10

// Answer is a message whose sender learns when gRPC has sent it. gRPC itself returns
// as soon as it has the bytes, and keeps them as long as the client does not read.
type Answer struct {
	Message any
	Extra   int           // counted in addition to the bytes
	Held    *atomic.Int64 // grows by the bytes
	Left    func(n int)   // bytes that gRPC holds no more
}

// Size is what a message takes on the wire.
func Size(m any) int {
	switch m := m.(type) {
	case fast:
		return m.SizeVT()
	case proto.Message:
		return proto.Size(m)
	}
	return 0
}

func (a *Answer) marshal() (mem.BufferSlice, error) {
	buffers, err := Codec{}.Marshal(a.Message)
	if err != nil {
		a.Left(a.Extra)
		return nil, fmt.Errorf("marshal an answer: %w", err)
	}
	whole := buffers.MaterializeToBuffer(mem.DefaultBufferPool())
	buffers.Free()
	size := whole.Len()
	a.Held.Add(int64(size))
	sent := &sending{whole: whole, answer: a}
	data := whole.ReadOnlyData()
	if size < trackedSize {
		data = append(make([]byte, 0, trackedSize), data...)
	}
	var out mem.BufferSlice
	for first := true; first || len(data) > 0; first = false {
		n := min(len(data), answerPiece)
		if rest := len(data) - n; rest < trackedSize {
			n += rest
		}
		piece := data[:n:max(n, trackedSize)]
		data = data[n:]
		sent.left.Add(1)
		out = append(out, mem.NewBuffer(&piece, sent))
	}
	return out, nil
}

// sending is the pool that an answer's pieces go back to.
type sending struct {
	whole  mem.Buffer
	left   atomic.Int32
	answer *Answer
}

// Get is for gRPC's pools; nothing is taken from here.
func (s *sending) Get(n int) *[]byte {
	b := make([]byte, n)
	return &b
}

// Put takes a piece that was sent, or will never be.
func (s *sending) Put(piece *[]byte) {
	n := len(*piece)
	if s.left.Add(-1) == 0 {
		s.whole.Free()
		n += s.answer.Extra
	}
	s.answer.Left(n)
}
