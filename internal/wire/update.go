package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

var (
	errNoSequence = errors.New("an update has no sequence")
	errValue      = errors.New("an attribute has a type that is not known")
)

// PutUpdates adds updates to a batch.
func PutUpdates(b *kymogramv1.Batch, updates []model.Update, protocol uint32) error {
	if len(updates) == 0 {
		return nil
	}
	if protocol == Typed {
		b.TypedUpdates = each(updates, update)
		return nil
	}
	var err error
	if b.Updates, err = json.Marshal(updates); err != nil {
		return fmt.Errorf("encode updates: %w", err)
	}
	return nil
}

// ReadUpdates reads the updates of a batch. One that cannot be read costs its
// record, which unreadable names, and not the batch: its writer would never get
// past it.
func ReadUpdates(b *kymogramv1.Batch) (updates []model.Update, unreadable []uint64, err error) {
	if len(b.Updates) > 0 {
		if updates, unreadable, err = readJSON(b.Updates); err != nil {
			return nil, nil, err
		}
	}
	// Before room is made: empty updates take 2 bytes each of a message.
	if slices.ContainsFunc(b.TypedUpdates, func(m *kymogramv1.Update) bool { return m.Seq == 0 }) {
		return nil, nil, errNoSequence
	}
	updates = slices.Grow(updates, len(b.TypedUpdates))
	for _, m := range b.TypedUpdates {
		if u, err := readUpdate(m); err == nil {
			updates = append(updates, u)
		} else {
			unreadable = append(unreadable, m.Seq)
		}
	}
	return updates, unreadable, nil
}

func readJSON(text []byte) (updates []model.Update, unreadable []uint64, err error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, nil, fmt.Errorf("its updates are not a JSON array: %w", err)
	}
	updates = make([]model.Update, 0, len(parts))
	for _, part := range parts {
		updates = append(updates, model.Update{})
		last := len(updates) - 1
		seq, err := readOne(part, &updates[last])
		switch {
		case seq == 0 && err != nil:
			return nil, nil, fmt.Errorf("%w: %w", errNoSequence, err)
		case seq == 0:
			return nil, nil, errNoSequence
		case err != nil:
			updates, unreadable = updates[:last], append(unreadable, seq)
		}
	}
	return updates, unreadable, nil
}

// readOne gives the sequence even of an update that cannot be read.
func readOne(text []byte, u *model.Update) (seq uint64, err error) {
	if err = json.Unmarshal(text, u); err == nil {
		return u.Seq, nil
	}
	var place struct {
		Seq uint64 `json:"seq"`
	}
	if unplaced := json.Unmarshal(text, &place); unplaced != nil {
		return 0, unplaced
	}
	return place.Seq, err
}

func update(u model.Update) *kymogramv1.Update {
	return &kymogramv1.Update{
		Op: string(u.Op), Seq: u.Seq, TimeNs: u.TimeNs, Path: u.Path, Value: value(u.Value), Env: u.Env, Episode: u.Episode,
		Tags: u.Tags, Text: u.Text, Count: u.Count, Initial: u.Initial, Rendering: rendering(u.Rendering), Signal: u.Signal,
	}
}

func readUpdate(m *kymogramv1.Update) (model.Update, error) {
	v, err := readValue(m.Value)
	return model.Update{
		Op: model.UpdateOp(m.Op), Seq: m.Seq, TimeNs: m.TimeNs, Path: m.Path, Value: v, Env: m.Env, Episode: m.Episode,
		Tags: m.Tags, Text: m.Text, Count: m.Count, Initial: m.Initial, Rendering: readRendering(m.Rendering), Signal: m.Signal,
	}, err
}

func value(v *model.Value) *kymogramv1.Value {
	if v == nil {
		return nil
	}
	out := &kymogramv1.Value{}
	switch v.Type {
	case model.TypeBool:
		out.Value = &kymogramv1.Value_BoolValue{BoolValue: v.Bool}
	case model.TypeInt:
		out.Value = &kymogramv1.Value_Int64Value{Int64Value: v.Int}
	case model.TypeFloat:
		out.Value = &kymogramv1.Value_DoubleValue{DoubleValue: v.Float}
	case model.TypeString:
		out.Value = &kymogramv1.Value_StringValue{StringValue: v.Str}
	case model.TypeStringSet:
		out.Value = &kymogramv1.Value_StringSet{StringSet: &kymogramv1.StringSet{Values: v.Set}}
	case model.TypeTime:
		out.Value = &kymogramv1.Value_TimeNs{TimeNs: v.Int}
	}
	return out
}

func readValue(m *kymogramv1.Value) (*model.Value, error) {
	if m == nil {
		return nil, nil
	}
	switch v := m.Value.(type) {
	case *kymogramv1.Value_BoolValue:
		return model.BoolValue(v.BoolValue), nil
	case *kymogramv1.Value_Int64Value:
		return model.IntValue(v.Int64Value), nil
	case *kymogramv1.Value_DoubleValue:
		return model.FloatValue(v.DoubleValue), nil
	case *kymogramv1.Value_StringValue:
		return model.StringValue(v.StringValue), nil
	case *kymogramv1.Value_StringSet:
		return model.SetValue(append([]string{}, v.StringSet.GetValues()...)), nil
	case *kymogramv1.Value_TimeNs:
		return model.TimeValue(v.TimeNs), nil
	}
	return nil, errValue
}

func rendering(r *model.Rendering) *kymogramv1.Rendering {
	if r == nil {
		return nil
	}
	return &kymogramv1.Rendering{
		Id: r.ID, EnvId: r.Env, Episode: r.Episode, Name: r.Name, Sha256: r.SHA256, SizeBytes: r.SizeBytes, ContentType: r.ContentType,
		Frames: r.Frames, FramesDropped: r.FramesDropped, Fps: r.FPS, Width: r.Width, Height: r.Height,
		FirstRlStep: r.FirstRLStep, LastRlStep: r.LastRLStep, Complete: r.Complete, Tags: r.Tags, TimeNs: r.TimeNs,
		Marks: each(r.Marks, func(k model.RenderingMark) *kymogramv1.RenderingMark {
			return &kymogramv1.RenderingMark{Name: k.Name, FromFrame: k.FromFrame, ToFrame: k.ToFrame}
		}),
	}
}

func readRendering(m *kymogramv1.Rendering) *model.Rendering {
	if m == nil {
		return nil
	}
	return &model.Rendering{
		ID: m.Id, Env: m.EnvId, Episode: m.Episode, Name: m.Name, SHA256: m.Sha256, SizeBytes: m.SizeBytes, ContentType: m.ContentType,
		Frames: m.Frames, FramesDropped: m.FramesDropped, FPS: m.Fps, Width: m.Width, Height: m.Height,
		FirstRLStep: m.FirstRlStep, LastRLStep: m.LastRlStep, Complete: m.Complete, Tags: m.Tags, TimeNs: m.TimeNs,
		Marks: each(m.Marks, func(k *kymogramv1.RenderingMark) model.RenderingMark {
			return model.RenderingMark{Name: k.GetName(), FromFrame: k.GetFromFrame(), ToFrame: k.GetToFrame()}
		}),
	}
}
