package wandb

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/attribute"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
)

// The trees of a run: config as {key: {"value": …}} with W&B's own key _wandb, and summary.
const (
	treeConfig  = "wandb/config"
	treeSummary = "wandb/summary"
)

// maxTree is how deep a tree may be.
const maxTree = 64

// ownKey holds what the SDK says of itself in a config.
const ownKey = "_wandb"

// attributes are the leaves of a tree by their paths.
type attributes map[string]*model.Value

// configAttributes are those of a config.
func configAttributes(text []byte) (attributes, error) {
	if len(text) == 0 {
		return attributes{}, nil
	}
	tree, err := loose.Decode(text, maxTree)
	config, ok := tree.(map[string]any)
	if err != nil || !ok {
		return nil, model.Errorf(model.CodeInvalid, "the config is no JSON object: %v", err)
	}
	plain := make(map[string]any, len(config))
	for key, entry := range config {
		if key == ownKey {
			continue
		}
		plain[key] = entry
		if inner, ok := entry.(map[string]any); ok {
			if value, ok := inner["value"]; ok {
				plain[key] = value
			}
		}
	}
	return flat("config", plain)
}

// flat lists the leaves of a tree; null is a leaf without a value, and no attribute.
func flat(prefix string, tree map[string]any) (attributes, error) {
	updates, err := attribute.Flatten(prefix, numbers(tree), time.Time{})
	if err != nil {
		return nil, err
	}
	out := make(attributes, len(updates))
	for i := range updates {
		if updates[i].Value != nil {
			out[updates[i].Path] = updates[i].Value
		}
	}
	return out, nil
}

// numbers turns the numbers of a tree into Go's.
func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = numbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = numbers(inner)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, exact := loose.Float([]byte(v)); exact {
			return f
		}
		return v.String() // an integer that neither holds: its digits
	}
	return value
}

// changes are the updates that lead from one set of attributes to another, in the order of
// their paths.
func (a attributes) changes(to attributes) (updates []model.Update) {
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if _, stays := to[path]; !stays {
			updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: path})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(to)) {
		if before, was := a[path]; !was || !reflect.DeepEqual(before, to[path]) {
			updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: path, Value: to[path]})
		}
	}
	return updates
}

// setConfig are the updates that make a text the config of a run. It is kept as it came.
func (r *Receiver) setConfig(before, text string) ([]model.Update, error) {
	if strings.TrimSpace(text) == "" || before == text {
		return nil, nil
	}
	to, err := configAttributes([]byte(text))
	if err != nil {
		return nil, err
	}
	from, err := configAttributes([]byte(before))
	if err != nil {
		from = attributes{} // an edit of another client: it is replaced as a whole
	}
	return append([]model.Update{{Op: model.OpSetTree, Path: treeConfig, Text: text}}, from.changes(to)...), nil
}

// setSummary are the updates that make a text the summary of a run, or a part of it where it
// is of one of several processes. What the run logs has its last value by itself; the rest
// of a summary becomes attributes. coming are keys of rows that are about to be stored. After
// an error the life must not keep what it knows of the summary: which updates were stored is
// not known.
func (r *Receiver) setSummary(ctx context.Context, v *life, part bool, text string, coming map[string]bool) ([]model.Update, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := checkSummary(text); err != nil {
		return nil, err
	}
	trees, err := r.query.Trees(ctx, v.id, treeSummary)
	if err != nil {
		return nil, err
	}
	before := trees[treeSummary]
	if part && before != "" {
		text = string(union([]byte(before), []byte(text)))
	}
	if before == text && v.plain != nil && len(v.plain) == 0 {
		return nil, nil
	}
	logged, err := r.logged(ctx, v.id, before, text)
	if err != nil {
		return nil, err
	}
	maps.Copy(logged, coming)
	updates, err := r.compare(ctx, v, before, text, logged)
	if err != nil {
		return nil, err
	}
	v.plain = plainKeys(text, logged)
	return updates, nil
}

func checkSummary(text string) error {
	if err := loose.CheckDepth([]byte(text), maxTree); err != nil {
		return model.Errorf(model.CodeInvalid, "the summary is no JSON: %s", err)
	}
	if loose.KindOf([]byte(text)) != loose.Object {
		return model.Errorf(model.CodeInvalid, "the summary is no JSON object")
	}
	return nil
}

// logged are the keys of summaries that are series of a run.
func (r *Receiver) logged(ctx context.Context, run model.RunID, texts ...string) (map[string]bool, error) {
	keys := map[string]bool{}
	for _, text := range texts {
		if err := summaryKeys(keys, text); err != nil {
			return nil, err
		}
	}
	return r.query.Having(ctx, run, maps.Keys(keys), row.IsSeries)
}

// compare are the updates that lead from one summary to another.
func (r *Receiver) compare(ctx context.Context, v *life, before, text string, logged map[string]bool) ([]model.Update, error) {
	plain := func(key []byte) bool { return !logged[string(key)] }
	from, err := summaryAttributes(before, plain)
	if err != nil {
		return nil, err
	}
	to, err := summaryAttributes(text, plain)
	if err != nil {
		return nil, err
	}
	left, err := r.left(ctx, v, before, text, logged)
	if err != nil {
		return nil, err
	}
	maps.Copy(left, from)
	updates := left.changes(to)
	if before == text {
		return updates, nil
	}
	// The tree comes last: where only some of it was stored, a repeat finds the changes again.
	return append(updates, model.Update{Op: model.OpSetTree, Path: treeSummary, Text: text}), nil
}

// left are attributes that the run still has of keys which became series since they were set:
// a user may set a key by hand and log it later. Most keys of a summary were series all the
// time, so they are not deleted at each comparison, but only those that were none at the one
// before. Where that is not known, the run's attributes tell.
func (r *Receiver) left(ctx context.Context, v *life, before, text string, logged map[string]bool) (attributes, error) {
	left, late := attributes{}, v.late(logged)
	if len(late) == 0 {
		return left, nil
	}
	for _, one := range []string{before, text} {
		all, err := summaryAttributes(one, func(key []byte) bool { return late[string(key)] })
		if err != nil {
			return nil, err
		}
		maps.Copy(left, all)
	}
	if v.plain != nil || len(left) == 0 {
		return left, nil
	}
	has := attributes{}
	for a, err := range r.query.Attributes(ctx, v.id) {
		if err != nil {
			return nil, err
		}
		if value, is := left[a.Path]; is {
			has[a.Path] = value
		}
	}
	return has, nil
}

// late are the keys that became series since the summary was last compared, all that are where
// it is not known which were before.
func (v *life) late(logged map[string]bool) map[string]bool {
	if v.plain == nil {
		return logged
	}
	late := map[string]bool{}
	for key := range v.plain {
		if logged[key] {
			late[key] = true
		}
	}
	return late
}

// plainBytes bounds what a life keeps of a summary's keys: there may be thousands of lives.
// Of a run with more the attributes are read at each comparison.
const plainBytes = 16 << 10

// plainKeys are the keys of a summary that are no series, nil where they are too many to keep
// or not to be read.
func plainKeys(text string, logged map[string]bool) map[string]bool {
	const entryBytes = 48 // of a key besides its text
	plain, room := map[string]bool{}, plainBytes
	for m, err := range loose.Members([]byte(text)) {
		if err != nil {
			return nil
		}
		if bytes.HasPrefix(m.Key, []byte("_")) || logged[string(m.Key)] {
			continue
		}
		if room -= entryBytes + len(m.Key); room < 0 {
			return nil
		}
		plain[string(m.Key)] = true
	}
	return plain
}

// summaryKeys adds the keys of a summary that are not W&B's own.
func summaryKeys(keys map[string]bool, text string) error {
	if text == "" {
		return nil
	}
	for m, err := range loose.Members([]byte(text)) {
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(m.Key, []byte("_")) {
			keys[string(m.Key)] = true
		}
	}
	return nil
}

// summaryAttributes are those of the keys of a summary that are taken.
func summaryAttributes(text string, take func(key []byte) bool) (attributes, error) {
	if text == "" {
		return attributes{}, nil
	}
	plain := map[string]any{}
	for m, err := range loose.Members([]byte(text)) {
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(m.Key, []byte("_")) || !take(m.Key) {
			continue
		}
		if plain[string(m.Key)], err = loose.Decode(m.Value, maxTree); err != nil {
			return nil, err
		}
	}
	return flat("summary", plain)
}
