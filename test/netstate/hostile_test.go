package netstate_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kymogram/kymogram/netstate"
)

// A server whose lists have no end, or go on where nothing is, costs its reader one
// failed call: what was seen stays, and the next honest answer counts.
func TestListsThatLeadNowhere(t *testing.T) {
	n := newNetwork(t)
	ctx, all := t.Context(), netstate.Select{}
	v, reader := n.join("v", netstate.Validator, nil), n.join("reader", netstate.Miner, nil)
	score := 10.0
	n.must(v.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), score, "H100")}))
	if _, err := reader.StatsAllocated(ctx, all); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, says string // says is "" where the reader cannot know
		lie        func(doc map[string]any, since float64)
	}{
		{"a next that no request can name", "continues at record", func(doc map[string]any, _ float64) {
			doc["next"] = json.Number("18446744073709551615")
		}},
		{"a next that went back", "continues at record", func(doc map[string]any, since float64) { doc["next"] = since - 1 }},
		{"a next far ahead", "", func(doc map[string]any, _ float64) {
			doc["next"] = 1e12
			delete(doc, "tip")
		}},
		{"nothing, and more", "has nothing and says that there is more", func(doc map[string]any, since float64) {
			doc["entries"], doc["evidence"], doc["more"], doc["next"] = []any{}, []any{}, true, since
		}},
		{"nothing, and more, further on", "has nothing and says that there is more", func(doc map[string]any, since float64) {
			doc["entries"], doc["evidence"], doc["more"], doc["next"] = []any{}, []any{}, true, since+1
		}},
		{"more of the same", "do not end", func(doc map[string]any, since float64) {
			doc["entries"] = []any{map[string]any{"record": "", "signature": strings.Repeat("0", 128), "payload": ""}}
			doc["more"], doc["next"], doc["size"] = true, since+1, since+9
			delete(doc, "before")
			delete(doc, "tip")
		}},
	} {
		var asked atomic.Int64
		n.lie(func(r *http.Request, body []byte) []byte {
			if !strings.HasSuffix(r.URL.Path, "/opencompute/state") {
				return body
			}
			asked.Add(1)
			var doc map[string]any
			n.must(json.Unmarshal(body, &doc))
			var since float64
			n.must(json.Unmarshal([]byte(r.URL.Query().Get("since")), &since))
			c.lie(doc, since)
			return []byte(text(t, doc))
		})
		_, err := reader.StatsAllocated(ctx, all)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if asked.Load() > 1_001 {
			t.Errorf("%s: %d requests in one call", c.what, asked.Load())
		}
		n.lie(nil)
		score++
		n.must(v.UpdateStats(ctx, netstate.Stats{5: stat(5, hotkey(t, "m"), score, "H100")}))
		if got, err := reader.StatsAllocated(ctx, all); err != nil || got[5].Score != score {
			t.Errorf("after %s: %+v %v", c.what, got, err)
		}
	}
}
