package main

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/server/internal/server"
)

// byHand sends bytes as they are and reads answers of streams.
type byHand struct{}

func (byHand) Name() string { return proto.Name }

func (byHand) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (byHand) Unmarshal(data mem.BufferSlice, v any) error {
	return v.(*kymogramv1.StreamResponse).UnmarshalVT(data.Materialize())
}

// wrongWire is a field of a message that is no number, as one.
func wrongWire(field protowire.Number) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, field, protowire.Fixed64Type), 7)
}

// within is a message in fields of others, the outermost first.
func within(message []byte, fields ...protowire.Number) []byte {
	for i := len(fields) - 1; i >= 0; i-- {
		message = protowire.AppendBytes(protowire.AppendTag(nil, fields[i], protowire.BytesType), message)
	}
	return message
}

// What is no message of its type is the fault of who sends it: the server has none of its own.
func TestWrongWireTypes(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(byHand{})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(method string, message []byte, key string) (code, hint string) {
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.SendMsg(message) // the answer says why
		_ = stream.CloseSend()
		answer := &kymogramv1.StreamResponse{}
		if err := stream.RecvMsg(answer); err != nil {
			code, hint, _ = strings.Cut(status.Convert(err).Message(), ": ")
			return code, hint
		}
		return answer.GetFailure().GetCode(), answer.GetFailure().GetHint()
	}
	for method := range server.DefaultPolicy().RPC {
		if !strings.HasPrefix(method, "/kymogram.v1.") {
			continue
		}
		if code, said := ask(method, wrongWire(1), s.keys["admin"]); code != "invalid_argument" {
			t.Errorf("%s: %s, %s", method, code, said)
		}
	}
	const stream, batch, groups, columns = "/kymogram.v1.IngestService/Stream", 2, 4, 4
	for name, message := range map[string][]byte{
		"an open": within(wrongWire(1), 1), "a batch": wrongWire(batch), "a series": within(wrongWire(2), batch, 3),
		"groups": within(wrongWire(groups), batch), "a column": within(wrongWire(columns), batch, groups), "cut": within(wrongWire(columns), batch, groups)[:5],
	} {
		if code, hint := ask(stream, message, s.keys["admin"]); code != "invalid_argument" || !strings.Contains(hint, "fault of the client") {
			t.Errorf("%s: %s, %q", name, code, hint)
		}
	}
}
