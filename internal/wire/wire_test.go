package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// message is what the generated code offers.
type message interface {
	proto.Message
	MarshalVT() ([]byte, error)
	UnmarshalVT(data []byte) error
}

// carry sends a message over the wire.
func carry[M message](t *rapid.T, from M, err error, into M) M {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	data, err := from.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	if err := into.UnmarshalVT(data); err != nil {
		t.Fatal(err)
	}
	return into
}

// equal compares what came by the typed form with what came by JSON, the oracle:
// it is what all writers sent before.
func equal[V any](t *rapid.T, asJSON, typed V) {
	t.Helper()
	if diff := cmp.Diff(asJSON, typed, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-JSON +typed):\n%s", diff)
	}
}

func values(t *rapid.T) *model.Value {
	switch rapid.IntRange(0, 8).Draw(t, "value") {
	case 0:
		return nil
	case 1:
		return model.BoolValue(rapid.Bool().Draw(t, "bool"))
	case 2:
		return model.IntValue(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1<<53 + 1})).Draw(t, "int"))
	case 3:
		return model.FloatValue(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)})).Draw(t, "float"))
	case 4:
		return model.StringValue(rapid.String().Draw(t, "string"))
	case 5:
		return model.SetValue(nil)
	case 6:
		return model.SetValue(rapid.SliceOf(rapid.String()).Draw(t, "set"))
	}
	return model.TimeValue(rapid.Int64().Draw(t, "time"))
}

// updates draws any, also those that make no sense, with what only a server and its receivers say
// left out.
func updates(t *rapid.T) []model.Update {
	out := rapid.SliceOf(rapid.Make[model.Update]()).Draw(t, "updates")
	for i := range out {
		u := &out[i]
		u.Value, u.Other, u.File, u.Seq = values(t), nil, nil, max(u.Seq, 1)
		if u.Rendering != nil {
			u.Rendering.FPS = rapid.Float64Range(-1e300, 1e300).Draw(t, "fps")
		}
	}
	return out
}

func TestFormsOfAnOpenAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Make[model.OpenRequest]().Draw(t, "request")
		r.Initial = updates(t)
		var read [2]model.OpenRequest
		for i, protocol := range []uint32{JSON, Typed} {
			m, err := Open(&r, protocol)
			if read[i], err = ReadOpen(carry(t, m, err, &kymogramv1.Open{})); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, read[0], read[1])
		sameNames(t, r, openRequest(&r))
	})
}

func TestFormsOfAnOpenedAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Make[model.OpenResult]().Draw(t, "result")
		var read [2]model.OpenResult
		for i, protocol := range []uint32{JSON, Typed} {
			m, err := Opened(&r, protocol)
			if read[i], err = ReadOpened(carry(t, m, err, &kymogramv1.Opened{})); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, read[0], read[1])
		sameNames(t, r, openResult(&r))
	})
}

func TestFormsOfUpdatesAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := updates(t)
		var read [2][]model.Update
		for i, protocol := range []uint32{JSON, Typed} {
			b := &kymogramv1.Batch{}
			err := PutUpdates(b, list, protocol)
			var unreadable []uint64
			if read[i], unreadable, err = ReadUpdates(carry(t, b, err, &kymogramv1.Batch{})); err != nil || len(unreadable) > 0 {
				t.Fatal(unreadable, err)
			}
		}
		equal(t, read[0], read[1])
		for _, u := range list {
			sameNames(t, u, update(u))
		}
	})
}

func TestFormsOfSharedEnvironmentsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.Make[model.SharedWith]()).Draw(t, "shared")
		var read [2][]model.SharedWith
		for i, protocol := range []uint32{JSON, Typed} {
			a := &kymogramv1.Ack{}
			err := PutShared(a, list, protocol)
			if read[i], err = ReadShared(carry(t, a, err, &kymogramv1.Ack{})); err != nil {
				t.Fatal(err)
			}
			if i == 1 && len(list) > 0 {
				sameNames(t, list[0], a.TypedShared[0])
			}
		}
		equal(t, read[0], read[1])
	})
}

// sameNames: a field has the name that it has in JSON, so no two were swapped on
// both ways.
func sameNames(t *rapid.T, value any, m proto.Message) {
	t.Helper()
	doc, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	typed, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want, got := leaves(t, doc), leaves(t, typed)
	for name, value := range want {
		if other, ok := got[name]; other != value && (ok || !empty(value)) {
			t.Errorf("%s is %q in JSON and %q (%v) as a message", name, value, other, ok)
		}
	}
}

func empty(value string) bool { return slices.Contains([]string{"", "0", "false"}, value) }

// leaves are the scalars of a document, but for what the forms write differently:
// ids, values, and the mark, which is in Opened.
func leaves(t *rapid.T, doc []byte) map[string]string {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var root any
	if err := dec.Decode(&root); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, one := range v {
				if !slices.Contains([]string{"writer", "local_run", "parent_attempt", "ended", "run", "value", "mark", "fps"}, name) {
					walk(path+"."+name, one)
				}
			}
		case []any:
			for i, one := range v {
				walk(fmt.Sprint(path, ".", i), one)
			}
		default:
			out[path] = fmt.Sprint(v)
		}
	}
	walk("", root)
	return out
}

// An attribute of a newer version in an open is refused by itself. The open is read.
func TestUnreadableAttributesOfAnOpen(t *testing.T) {
	text := `{"run_name":"r","initial":[{"op":"set_attribute","path":"a","value":{"type":"future","value":1}},` +
		`{"op":"set_attribute","path":"b","value":{"type":"int64","value":2}}]}`
	got, err := ReadOpen(&kymogramv1.Open{Protocol: JSON, Request: []byte(text)})
	if err != nil || got.RunName != "r" || len(got.Initial) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got.Initial[0].Op != unreadable || got.Initial[1].Path != "b" || got.Initial[1].Value.Int != 2 {
		t.Errorf("%+v", got.Initial)
	}
}

func TestUnreadableUpdates(t *testing.T) {
	future := &kymogramv1.Value{}
	for name, b := range map[string]*kymogramv1.Batch{
		"JSON":  {Updates: []byte(`[{"op":"gone","seq":1},{"op":"set_attribute","path":"p","value":{"type":"future","value":1},"seq":2},{"op":"future","new":1,"seq":3}]`)},
		"typed": {TypedUpdates: []*kymogramv1.Update{{Op: "gone", Seq: 1}, {Op: "set_attribute", Path: "p", Value: future, Seq: 2}, {Op: "future", Seq: 3}}},
	} {
		got, unreadable, err := ReadUpdates(b)
		want := []model.Update{{Op: model.OpGone, Seq: 1}, {Op: "future", Seq: 3}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || !slices.Equal(unreadable, []uint64{2}) {
			t.Errorf("%s: unreadable %v, %v (-want +got):\n%s", name, unreadable, err, diff)
		}
	}
	// A writer passes on what it does not know.
	if m := update(model.Update{Op: "future", Value: &model.Value{Type: "future"}}); m.Op != "future" || m.Value == nil {
		t.Errorf("an operation of the future became %v", m)
	}
}

func TestWrongMessages(t *testing.T) {
	short := []byte{1, 2, 3}
	open := func(r *kymogramv1.OpenRequest) error {
		_, err := ReadOpen(&kymogramv1.Open{Protocol: Typed, TypedRequest: r})
		return err
	}
	_, _, noSequence := ReadUpdates(&kymogramv1.Batch{TypedUpdates: []*kymogramv1.Update{{Op: "gone"}}})
	_, run := ReadOpened(&kymogramv1.Opened{TypedResult: &kymogramv1.OpenResult{Run: short}})
	_, shared := ReadShared(&kymogramv1.Ack{TypedShared: []*kymogramv1.SharedWith{{Writer: short}}})
	for name, err := range map[string]error{
		"no request": open(nil), "a writer": open(&kymogramv1.OpenRequest{Writer: short}), "a run": open(&kymogramv1.OpenRequest{LocalRun: short}),
		"a parent": open(&kymogramv1.OpenRequest{ParentAttempt: short}), "an ended writer": open(&kymogramv1.OpenRequest{Ended: [][]byte{short}}),
		"no sequence": noSequence, "a result's run": run, "a shared environment's writer": shared,
	} {
		if err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}

// An open is of a stranger: what it gets back and what it costs do not grow with
// what is wrong in it.
func TestManyFaultsAreOneError(t *testing.T) {
	m := &kymogramv1.OpenRequest{Ended: make([][]byte, 100_000), Initial: make([]*kymogramv1.Update, 100_000)}
	for i := range m.Ended {
		m.Ended[i] = []byte{1}
		m.Initial[i] = &kymogramv1.Update{Value: &kymogramv1.Value{}}
	}
	_, err := ReadOpen(&kymogramv1.Open{Protocol: Typed, TypedRequest: m})
	if err == nil || err.Error() != "an id has 1 bytes instead of 16" {
		t.Errorf("%.200v", err)
	}
}
