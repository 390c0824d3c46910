package spool

import "github.com/kymogram/kymogram/internal/model"

// Tally counts what records hold, by the kinds that a client's metrics name.
type Tally struct {
	Points     uint64 // numbers and documents without RL axes
	RL         uint64 // numbers with RL axes
	Attributes uint64 // changes of the run: attributes, tags, description
	Envs       uint64 // attributes of environments
}

// Total is the number of points.
func (t Tally) Total() uint64 { return t.Points + t.RL }

// Add adds another's numbers.
func (t *Tally) Add(o Tally) {
	t.Points += o.Points
	t.RL += o.RL
	t.Attributes += o.Attributes
	t.Envs += o.Envs
}

// Without is t less what o counts; never below nothing.
func (t Tally) Without(o Tally) Tally {
	return Tally{
		t.Points - min(t.Points, o.Points), t.RL - min(t.RL, o.RL),
		t.Attributes - min(t.Attributes, o.Attributes), t.Envs - min(t.Envs, o.Envs),
	}
}

// Tally counts what the record holds. A block with more than one axis is RL's.
func (r *Record) Tally() Tally {
	switch {
	case r.Type == TypeBlock && len(r.Block.Axes) > 1:
		return Tally{RL: uint64(r.Points())}
	case r.Type == TypeUpdate:
		return tallyUpdates(r.Updates)
	}
	return Tally{Points: uint64(r.Points())}
}

func tallyUpdates(updates []model.Update) Tally {
	var t Tally
	for i := range updates {
		switch updates[i].Op {
		case model.OpSetEnvAttribute:
			t.Envs++
		case model.OpClose, model.OpGone, model.OpDropped:
		default:
			t.Attributes++
		}
	}
	return t
}
