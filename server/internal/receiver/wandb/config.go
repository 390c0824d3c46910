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
// of a summary becomes attributes. coming are keys of rows that are about to be stored.
func (r *Receiver) setSummary(ctx context.Context, run model.RunID, part bool, text string, coming map[string]bool) ([]model.Update, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if err := loose.CheckDepth([]byte(text), maxTree); err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the summary is no JSON: %s", err)
	}
	if loose.KindOf([]byte(text)) != loose.Object {
		return nil, model.Errorf(model.CodeInvalid, "the summary is no JSON object")
	}
	trees, err := r.query.Trees(ctx, run, treeSummary)
	if err != nil {
		return nil, err
	}
	if part && trees[treeSummary] != "" {
		text = string(union([]byte(trees[treeSummary]), []byte(text)))
	}
	if trees[treeSummary] == text {
		return nil, nil
	}
	keys := map[string]bool{}
	for _, one := range []string{trees[treeSummary], text} {
		if err := summaryKeys(keys, one); err != nil {
			return nil, err
		}
	}
	logged, err := r.query.Having(ctx, run, maps.Keys(keys), row.IsSeries)
	if err != nil {
		return nil, err
	}
	maps.Copy(logged, coming)
	from, err := summaryAttributes(trees[treeSummary], logged)
	if err != nil {
		return nil, err
	}
	to, err := summaryAttributes(text, logged)
	if err != nil {
		return nil, err
	}
	// The tree comes last: where only some of it was stored, a repeat finds the changes again.
	return append(from.changes(to), model.Update{Op: model.OpSetTree, Path: treeSummary, Text: text}), nil
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

// summaryAttributes are those of a summary: what is no key of the history.
func summaryAttributes(text string, logged map[string]bool) (attributes, error) {
	if text == "" {
		return attributes{}, nil
	}
	plain := map[string]any{}
	for m, err := range loose.Members([]byte(text)) {
		if err != nil {
			return nil, err
		}
		if bytes.HasPrefix(m.Key, []byte("_")) || logged[string(m.Key)] {
			continue
		}
		if plain[string(m.Key)], err = loose.Decode(m.Value, maxTree); err != nil {
			return nil, err
		}
	}
	return flat("summary", plain)
}
