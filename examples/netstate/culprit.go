package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// What validators do.
const (
	honest      = "honest"
	lying       = "lying"       // reports scores and hardware that nobody else sees
	stale       = "stale"       // spoke once, and lets its record expire
	double      = "double"      // votes with two runs for the miners that it favours
	equivocator = "equivocator" // signs two records with one sequence
)

var kinds = []string{honest, lying, stale, double, equivocator}

// validate publishes reports as its kind does.
func (n *node) validate(ctx context.Context) error {
	runs := 1
	if n.Kind == double {
		runs = 2
	}
	voices := make([]*voice, 0, runs)
	for number := range runs {
		v, err := n.open(ctx, number)
		if err != nil {
			return err
		}
		voices = append(voices, v)
	}
	return n.repeat(ctx, voices, func(v *voice, turn int) error {
		if err := v.log(map[string]float64{"Stake": 1000 * (1 + wave(n.UID, 0)), "vTrust": wave(n.UID, turn), "Emission": wave(n.UID, turn) * 3}); err != nil {
			return err
		}
		return n.speak(ctx, v, turn)
	})
}

func (n *node) speak(ctx context.Context, v *voice, turn int) error {
	state := n.state(said(n.Kind, n.Miners))
	switch n.Kind {
	case stale:
		if turn > 1 {
			return nil
		}
		v.life = 2 * time.Second
	case equivocator:
		if turn == 1 {
			return n.equivocate(ctx, v)
		}
	}
	return v.say(ctx, state)
}

// equivocate signs two records with one sequence: one for some readers, one for
// others. The server takes one of them and keeps the other as evidence.
func (n *node) equivocate(ctx context.Context, v *voice) error {
	if err := v.say(ctx, n.state(n.Miners)); err != nil {
		return err
	}
	v.at++
	first, err := v.seal(v.at, n.state(n.Miners))
	if err != nil {
		return err
	}
	second, err := v.seal(v.at, n.state(said(equivocator, n.Miners)))
	if err != nil {
		return err
	}
	if err := v.send(ctx, first); err != nil {
		return err
	}
	v.last = first
	if err := v.send(ctx, second); model.CodeOf(err) != model.CodeStateConflict {
		return fmt.Errorf("the server took the second record with one sequence: %w", err)
	}
	return nil
}

// state is a validator's config section.
func (n *node) state(reports []Report) map[string]any {
	stats, allocated := map[string]any{}, []string{}
	for _, r := range reports {
		stats[strconv.Itoa(r.UID)] = r
		if r.Allocated {
			allocated = append(allocated, r.Hotkey)
		}
	}
	return map[string]any{"version": 183, "hotkey": n.key.Account().String(), "role": n.Role, "stats": stats, "allocated_hotkeys": allocated}
}

// said is what a validator of a kind reports, given the truth.
func said(kind string, truth []Report) []Report {
	reports := slices.Clone(truth)
	fifth := len(reports) / 5
	for i := range reports {
		r := &reports[i]
		switch {
		case kind == lying && i < 2*fifth:
			r.Score, r.GPU = 99.5, GPU{"NVIDIA H200", 8}
		case kind == double && i >= 2*fifth && i < 3*fifth:
			r.Score = 98.5
		case kind == stale:
			r.Score = math.Round(r.Score/2*100) / 100
		case kind == equivocator && i >= 3*fifth:
			r.Score, r.Allocated = 1, false
		}
	}
	return reports
}
