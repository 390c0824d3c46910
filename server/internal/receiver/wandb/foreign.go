package wandb

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// A run that another client logged has no trees. Its config is made of its attributes below
// config/, its summary of the last values of its metrics, when a request asks for them.
// Filters and orders of lists do not look there.

// configOf is the config of a run as the API gives it.
func (r *Receiver) configOf(run *foundRun) graph.Field {
	if run.config != "" || run.about != "" {
		return orEmpty(run.config)
	}
	return graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		detail, err := r.query.Run(ctx, run.ID, nil)
		if err != nil {
			return nil, err
		}
		made := branch{}
		for a, err := range detail.Attributes {
			if err != nil {
				return nil, err
			}
			if path, is := strings.CutPrefix(a.Path, "config/"); is {
				made.put(path, appendValue(nil, &a.Value))
			}
		}
		out := []byte{'{'}
		for _, key := range slices.Sorted(maps.Keys(made)) {
			out = append(append(append(member(out, key), `{"value":`...), made[key].json()...), '}')
		}
		return string(append(out, '}')), nil
	})
}

// summaryOf is the summary of a run as the API gives it.
func (r *Receiver) summaryOf(run *foundRun) graph.Field {
	if run.summary != "" || run.about != "" {
		return orEmpty(run.summary)
	}
	return graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		detail, err := r.query.Run(ctx, run.ID, nil)
		if err != nil {
			return nil, err
		}
		out := []byte{'{'}
		for _, s := range detail.Summary {
			switch out = member(out, s.Metric); s.Kind {
			case model.KindInt:
				out = strconv.AppendInt(out, s.Last.Value.Int, 10)
			default:
				out = loose.AppendNumber(out, s.Last.Value.Float)
			}
		}
		return string(append(out, '}')), nil
	})
}

// branch is a part of a config by its keys.
type branch map[string]*leaf

// leaf has the JSON of a value, or the branch below it. A path below another's value stays
// one key.
type leaf struct {
	value []byte
	below branch
}

func (b branch) put(path string, value []byte) {
	key, rest, deep := strings.Cut(path, "/")
	at := b[key]
	switch {
	case !deep && at == nil:
		b[key] = &leaf{value: value}
	case deep && at == nil:
		at = &leaf{below: branch{}}
		b[key] = at
		at.below.put(rest, value)
	case deep && at.below != nil:
		at.below.put(rest, value)
	default:
		b[path] = &leaf{value: value}
	}
}

func (l *leaf) json() []byte {
	if l.below == nil {
		return l.value
	}
	out := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(l.below)) {
		out = append(member(out, key), l.below[key].json()...)
	}
	return append(out, '}')
}

// appendValue appends an attribute as JSON, a time as text.
func appendValue(out []byte, v *model.Value) []byte {
	switch v.Type {
	case model.TypeBool:
		return strconv.AppendBool(out, v.Bool)
	case model.TypeInt:
		return strconv.AppendInt(out, v.Int, 10)
	case model.TypeFloat:
		return loose.AppendNumber(out, v.Float)
	case model.TypeTime:
		return loose.AppendText(out, time.Unix(0, v.Int).UTC().Format(time.RFC3339Nano))
	case model.TypeStringSet:
		out = append(out, '[')
		for i, s := range v.Set {
			if i > 0 {
				out = append(out, ',')
			}
			out = loose.AppendText(out, s)
		}
		return append(out, ']')
	}
	return loose.AppendText(out, v.Str)
}
