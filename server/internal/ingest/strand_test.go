package ingest_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// extremeUpdates are valid, and as odd as a client can make them.
func extremeUpdates() []model.Update {
	far, none := int64(1<<62), int64(0)
	long := strings.Repeat("\u202e", 170)
	out := []model.Update{
		dropped(math.MaxUint64),
		{Op: model.OpGone, TimeNs: math.MinInt64},
		{Op: model.OpClose, Text: string(model.StatusFailed), TimeNs: math.MaxInt64},
		{Op: model.OpSetDescription, Text: "a\x00b"},
		{Op: model.OpSetDisplayName, Text: ""},
		{Op: model.OpLog, Path: long, TimeNs: math.MinInt64, Tags: []string{"", "=", "a=b=c"}},
		{Op: model.OpSetTags},
		{Op: model.OpRemoveTags, Tags: []string{"never there"}},
		{Op: model.OpRendering, Rendering: &model.Rendering{ID: "r", Env: long, FPS: math.MaxFloat64, Frames: far, SizeBytes: far, TimeNs: math.MinInt64}},
	}
	for _, v := range []*model.Value{
		nil, model.BoolValue(true), model.IntValue(math.MinInt64), model.IntValue(math.MaxInt64), model.TimeValue(math.MinInt64), model.FloatValue(math.NaN()),
		model.FloatValue(math.Inf(-1)), model.FloatValue(math.Copysign(0, -1)), model.StringValue("a\x00b"), model.SetValue(nil), model.SetValue([]string{"", "a", "a"}),
	} {
		out = append(out, model.Update{Op: model.OpSetAttribute, Path: long, Value: v},
			model.Update{Op: model.OpSetEnvAttribute, Env: long, Path: "p", Value: v, Episode: &far},
			model.Update{Op: model.OpSetEnvAttribute, Env: "e", Path: "p", Value: v, Episode: &none})
	}
	return out
}

// Whatever one writer's updates hold and however often they come, the catalog takes them: else
// no writer of the run could go on, and a server with a folder like that could not start.
func TestNoUpdateStrandsARun(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	for i, u := range extremeUpdates() {
		seq, often := uint64(i+1), 2
		if u.Op == model.OpDropped {
			often = 1100 // of the largest size, they leave the range of int64
		}
		if ack := n.append(s, updates(seq, slices.Repeat([]model.Update{u}, often)...)); len(ack.Refused) > 0 {
			t.Errorf("%+v is refused: %v", u, ack.Refused[0])
		}
	}
	n.append(n.join(request(2)), points(1, 1))
	if d := n.detail(s.Opened.Run); d.Dropped < 1<<50 {
		t.Errorf("%d points are counted as dropped", d.Dropped)
	}
	n.restart()
	n.append(n.join(request(2)), points(2, 2))
}
