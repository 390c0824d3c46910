package wandb

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// imported is where a run comes from that an import made. `kymogram import wandb` copies a
// run with W&B's own requests. What they cannot say is in the field `imported` of
// upsertBucket's input: key, digest, createdAt, endedAt, state, user.
type imported struct {
	// Key names the run at its source.
	Key string `json:"key"`
	// Digest is what the source said of the run when it was copied whole; it is sent last,
	// so a copy that was interrupted has none.
	Digest string `json:"digest,omitempty"`
}

// The attributes of imported runs, those of every `kymogram import`.
const (
	attributeSource  = "import/source"
	attributeKey     = "import/key"
	attributeStarted = "import/started"
	attributeEnded   = "import/ended"
	importSource     = "wandb"
)

// importedFields are the origin of a run for the API, null where nothing imported it. A run
// whose import ended right after it was made has it in its attributes only.
func (r *Receiver) importedFields(run *foundRun, told *about) graph.Field {
	if of := told.Imported; of != nil {
		return graph.Object{"key": of.Key, "digest": of.Digest}
	}
	return graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		detail, err := r.query.Run(ctx, run.ID, nil)
		if err != nil {
			return nil, err
		}
		said := map[string]string{}
		for a, err := range detail.Attributes {
			if err != nil {
				return nil, err
			}
			if a.Path == attributeSource || a.Path == attributeKey {
				said[a.Path] = a.Value.Str
			}
		}
		if said[attributeSource] != importSource || said[attributeKey] == "" {
			return nil, nil
		}
		return graph.Object{"key": said[attributeKey], "digest": ""}, nil
	})
}

// imports tells an upsert of an import.
func (u *upsert) imports() bool { return u.in.Has("imported") }

// origin makes a new run as old as it was, and says where it comes from with the request
// that makes it: a later import knows it by that, whatever ended this one.
func (u *upsert) origin(request *model.OpenRequest) {
	request.OpenedNs = instant(u.in.Inner("imported").Text("createdAt"))
	request.Initial = u.originAttributes()
}

// originAttributes show people where a run comes from.
func (u *upsert) originAttributes() (updates []model.Update) {
	in := u.in.Inner("imported")
	for path, value := range map[string]*model.Value{
		attributeSource:  model.StringValue(importSource),
		attributeKey:     textValue(in.Text("key")),
		attributeStarted: timeValue(in.Text("createdAt")),
		attributeEnded:   timeValue(in.Text("endedAt")),
	} {
		if value != nil {
			updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: path, Value: value})
		}
	}
	slices.SortFunc(updates, func(a, b model.Update) int { return strings.Compare(a.Path, b.Path) })
	return updates
}

func textValue(s string) *model.Value {
	if s == "" {
		return nil
	}
	return model.StringValue(s)
}

func timeValue(text string) *model.Value {
	ns := instant(text)
	if ns == 0 {
		return nil
	}
	return model.TimeValue(ns)
}

// instant reads a time of W&B, which has no zone in answers of some servers and then is of
// UTC; 0 where it is none.
func instant(text string) int64 {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if at, err := time.Parse(form, text); err == nil && at.Year() > 1970 && at.Year() < 2262 {
			return at.UnixNano()
		}
	}
	return 0
}

// ends closes an imported run as its source says that it ended. Without a state a copy
// begins: a run that was there and has ended is open again.
func (u *upsert) ends(ctx context.Context, v *life) error {
	in := u.in.Inner("imported")
	if in.Text("state") == "" {
		if u.fresh {
			return nil
		}
		return u.reopen(ctx, v)
	}
	now := u.options.Now().UnixNano()
	at := instant(in.Text("endedAt"))
	if at == 0 || at > now {
		at = now
	}
	var last model.Update
	switch in.Text("state") {
	case "finished":
		last = model.Update{Op: model.OpClose, Text: string(model.StatusFinished), TimeNs: at}
	case "failed":
		last = model.Update{Op: model.OpClose, Text: string(model.StatusFailed), TimeNs: at}
	case "killed":
		last = model.Update{Op: model.OpGone, Signal: "SIGTERM", TimeNs: at}
	case "crashed":
		last = model.Update{Op: model.OpGone, TimeNs: at}
	default:
		return nil // it runs
	}
	if err := u.reopen(ctx, v); err != nil {
		return err
	}
	for _, p := range v.processes {
		_, err := p.session.Append(ctx, &model.Batch{Updates: []model.Update{last}})
		p.session.Close()
		if err != nil {
			return err
		}
	}
	v.processes = nil
	for _, lane := range v.lanes {
		if _, err := lane.Append(ctx, &model.Batch{Updates: []model.Update{{Op: model.OpClose, Text: string(model.StatusFinished), TimeNs: at}}}); err != nil {
			return err
		}
	}
	return nil
}

// reopen finds the processes whose end is that of the run. Where none runs, one that fell
// silent since the last import is it, or a new one; a run that failed goes on in a new
// attempt, whose end is its end.
func (u *upsert) reopen(ctx context.Context, v *life) error {
	if err := u.load(ctx, v); err != nil || len(v.processes) > 0 {
		return err
	}
	run, err := u.query.Run(ctx, v.id, nil)
	if err != nil {
		return err
	}
	for w, err := range run.Writers {
		if err != nil {
			return err
		}
		if w.State != model.WriterGone || !strings.HasPrefix(w.SDK, processSDK) {
			continue
		}
		p, err := u.join(ctx, v, w.ID, w.SDK, w.Host, len(v.processes), false)
		if err != nil {
			return err
		}
		v.processes = append(v.processes, p)
	}
	if len(v.processes) > 0 {
		return nil
	}
	if run.Status != model.StatusFinished {
		if err := u.turn(ctx, v); err != nil {
			return err
		}
	}
	_, err = u.begin(ctx, v, beginner{sdk: u.version()})
	return err
}
