package kymogram

import (
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/attribute"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
)

// LogConfig sets attributes under config/; nested maps and lists become paths.
func (r *Run) LogConfig(config map[string]any) error { return r.LogAttributes("config", config) }

// LogAttributes sets attributes under a path, "" for none: a value, or nested
// maps, lists and structs of them. A nil value removes its attribute, an integer
// beyond int64 is kept as text. What a key holds that a path cannot is written as
// %XX, a text above 64 KiB is cut and says so.
func (r *Run) LogAttributes(prefix string, value any) error {
	updates, err := attribute.Flatten(prefix, value, time.Now())
	if err != nil {
		return err
	}
	r.opts.tellOdd(updates)
	return r.update(updates...)
}

// LogEnvAttributes sets attributes of an RL environment, of one episode when
// Episode is given.
func (r *Run) LogEnvAttributes(env string, value map[string]any, opts ...LogOption) error {
	if err := rule.Env(env); err != nil {
		return err
	}
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	updates, err := attribute.Flatten("", value, time.Now())
	if err != nil {
		return err
	}
	r.opts.tellOdd(updates)
	for i := range updates {
		updates[i].Op, updates[i].Env = model.OpSetEnvAttribute, env
		if c.hasEpisode {
			updates[i].Episode = &c.episode
		}
	}
	return r.update(updates...)
}

// SetTags replaces the run's tags.
func (r *Run) SetTags(tags ...string) error { return r.tags(model.OpSetTags, tags) }

// AddTags adds tags.
func (r *Run) AddTags(tags ...string) error { return r.tags(model.OpAddTags, tags) }

// RemoveTags removes tags.
func (r *Run) RemoveTags(tags ...string) error { return r.tags(model.OpRemoveTags, tags) }

func (r *Run) tags(op model.UpdateOp, tags []string) error {
	if err := rule.Tags(tags); err != nil {
		return err
	}
	return r.update(tagUpdates(op, tags, time.Now())...)
}

// tagUpdates are the changes of a set of tags, in parts that the server takes.
func tagUpdates(op model.UpdateOp, tags []string, now time.Time) []model.Update {
	first := min(len(tags), rule.MaxTags)
	updates := []model.Update{{Op: op, TimeNs: now.UnixNano(), Tags: tags[:first]}}
	if op == model.OpSetTags {
		op = model.OpAddTags
	}
	for part := range slices.Chunk(tags[first:], rule.MaxTags) {
		updates = append(updates, model.Update{Op: op, TimeNs: now.UnixNano(), Tags: part})
	}
	return updates
}

// SetDescription replaces the run's description; "" clears it.
func (r *Run) SetDescription(text string) error {
	if err := rule.Text("description", text, rule.MaxText); err != nil {
		return err
	}
	return r.update(model.Update{Op: model.OpSetDescription, TimeNs: time.Now().UnixNano(), Text: text})
}

func (r *Run) update(updates ...model.Update) error {
	if len(updates) == 0 {
		return nil
	}
	if err := r.w.Updates(updates); err != nil {
		return closedError(err)
	}
	for i := range updates {
		if updates[i].Op == model.OpSetEnvAttribute {
			r.envAttributes.Add(1)
		} else {
			r.attributes.Add(1)
		}
	}
	return nil
}
