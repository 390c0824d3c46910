package native_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/recorded"
	"github.com/kymogram/kymogram/internal/wire"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// TestStreamsOfAnOldClient: what a client of protocol 1 sent has the same answers
// and ends in the same state as at its server of then. The same streams as typed
// messages end there too.
func TestStreamsOfAnOldClient(t *testing.T) {
	for name, protocol := range map[string]uint32{"as recorded": wire.JSON, "typed": wire.Typed} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			first, second := recorded.First(), recorded.Second()
			a := n.raw()
			for i, m := range first {
				if i == 5 { // its open and one batch are answered
					b := n.raw()
					for _, m := range second {
						b.replay(m, protocol)
					}
					b.ended()
				}
				a.replay(m, protocol)
			}
			a.ended()
			n.state(recorded.State())
		})
	}
}

// replay sends what the client sent, or expects what the server answered.
func (s *stream) replay(m recorded.Message, protocol uint32) {
	s.t.Helper()
	if !m.FromServer {
		sent := parse(s.t, m.Data, &kymogramv1.StreamRequest{})
		retype(s.t, sent, protocol)
		s.send(sent)
		return
	}
	want := parse(s.t, m.Data, &kymogramv1.StreamResponse{})
	retypeAnswer(s.t, want, protocol)
	if diff := cmp.Diff(want, s.receive(), protocmp.Transform()); diff != "" {
		s.t.Errorf("answer (-recorded +got):\n%s", diff)
	}
}

func parse[M proto.Message](t *testing.T, data []byte, into M) M {
	t.Helper()
	if err := proto.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// retype gives a recorded message the form of a protocol.
func retype(t *testing.T, m *kymogramv1.StreamRequest, protocol uint32) {
	t.Helper()
	if open := m.GetOpen(); open != nil {
		request, err := wire.ReadOpen(open)
		if err != nil {
			t.Fatal(err)
		}
		if open, err = wire.Open(&request, protocol); err != nil {
			t.Fatal(err)
		}
		m.Message = &kymogramv1.StreamRequest_Open{Open: open}
	}
	if b := m.GetBatch(); b != nil {
		updates, _, err := wire.ReadUpdates(b)
		if err != nil {
			t.Fatal(err)
		}
		b.Updates = nil
		if err := wire.PutUpdates(b, updates, protocol); err != nil {
			t.Fatal(err)
		}
	}
}

func retypeAnswer(t *testing.T, m *kymogramv1.StreamResponse, protocol uint32) {
	t.Helper()
	if opened := m.GetOpened(); opened != nil {
		result, err := wire.ReadOpened(opened)
		if err != nil {
			t.Fatal(err)
		}
		if opened, err = wire.Opened(&result, protocol); err != nil {
			t.Fatal(err)
		}
		m.Message = &kymogramv1.StreamResponse_Opened{Opened: opened}
	}
	if ack := m.GetAck(); ack != nil {
		shared, err := wire.ReadShared(ack)
		if err != nil {
			t.Fatal(err)
		}
		ack.Shared = nil
		if err := wire.PutShared(ack, shared, protocol); err != nil {
			t.Fatal(err)
		}
	}
}

// state compares what the HTTP API says with what that of the old server said.
func (n *node) state(doc []byte) {
	n.t.Helper()
	var want map[string]any
	if err := json.Unmarshal(doc, &want); err != nil {
		n.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, route := range httpapi.New(n.reads, n.ingest, nil, httpapi.Options{}).Routes() {
		mux.Handle(route.Method+" "+route.Pattern, route.Handler)
	}
	run := want["/api/v1/runs/RUN"].(map[string]any)["id"].(string)
	for path, answer := range want {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, strings.ReplaceAll(path, "RUN", run), http.NoBody))
		var got any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			n.t.Fatalf("%s: %v\n%s", path, err, w.Body)
		}
		if diff := cmp.Diff(timeless(answer), timeless(got)); diff != "" {
			n.t.Errorf("%s (-recorded +got):\n%s", path, diff)
		}
	}
}

// timeless drops what the server's clock decided, and what today's server says of workers
// and of the axis along which the rows of an environment's episodes come.
func timeless(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if name == "last_ns" || name == "seen_ns" || name == "duration_ms" || name == "axis" {
				delete(v, name)
			} else if sdk, ok := v[name].(string); ok && name == "sdk" {
				v[name] = strings.TrimPrefix(sdk, model.WorkerSDK)
			} else {
				v[name] = timeless(v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	}
	return v
}
