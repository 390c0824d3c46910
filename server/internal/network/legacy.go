package network

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/report"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Runs is the catalog, where runs without a record are found.
type Runs interface {
	ListRuns(ctx context.Context, f catalog.RunFilter) (page []catalog.Run, next string, err error)
	Attributes(ctx context.Context, run model.RunID, cursor string) (page []catalog.Attribute, next string, err error)
}

const (
	legacyAge     = 10 * time.Second // between two looks at the catalog
	maxLegacy     = 512              // runs of one role that are looked at
	maxAttributes = 8 << 20          // bytes of one run's attributes that are read
)

// legacyRuns are the runs that only say who they are, in their attributes.
type legacyRuns struct {
	looked time.Time // the last time that all were looked at
	unread int       // since then
	nodes  map[model.RunID]*legacyNode
}

// legacyNode is a run by its attributes: shown, and never counted. One without an old
// signature has no role.
type legacyNode struct {
	run       catalog.Run
	role      string
	hotkey    string
	netuid    string
	judgement state.Judgement
	section   section
}

// look reads the runs that have no record, at most every legacyAge and as many as the
// turn allows; a run is read again when it was active.
func (l *legacyRuns) look(ctx context.Context, runs Runs, v *view, workspace, project string, now time.Time, t *turn) error {
	if l.unread == 0 && !l.looked.IsZero() && now.Sub(l.looked) < legacyAge {
		return nil
	}
	found, unread := map[model.RunID]*legacyNode{}, 0
	for _, role := range []string{state.Validator, state.Miner} {
		listed, err := listLegacy(ctx, runs, catalog.RunFilter{Workspace: workspace, Project: project, Query: "config/role=" + role})
		if err != nil {
			return err
		}
		for _, run := range listed {
			known := l.nodes[run.ID]
			switch {
			case v.nodes[run.ID] != nil:
			case known != nil && known.run.LastNs == run.LastNs:
				found[run.ID] = known
			case t.left <= 0:
				unread++
			default:
				if found[run.ID], err = readLegacy(ctx, runs, run, t); err != nil {
					return err
				}
			}
		}
	}
	l.looked, l.nodes, l.unread = now, found, unread
	return nil
}

const attributeCost = 256 // about what one takes

// listLegacy lists runs without what is not shown of them, which may be long.
func listLegacy(ctx context.Context, runs Runs, f catalog.RunFilter) (listed []catalog.Run, err error) {
	f.Bytes = 1 << 20
	for more := true; more && len(listed) < maxLegacy; more = f.Cursor != "" {
		f.Limit = maxLegacy - len(listed)
		page, next, err := runs.ListRuns(ctx, f)
		if errors.Is(err, catalog.ErrLarge) {
			alone := f
			alone.Bytes, alone.Limit = 0, 1
			page, next, err = runs.ListRuns(ctx, alone)
		}
		if err != nil {
			return nil, err
		}
		f.Cursor = next
		for i := range page {
			page[i].Description, page[i].Tags = "", nil
		}
		listed = append(listed, page...)
	}
	return listed, nil
}

// readLegacy reads a run's attributes, as many as have maxAttributes bytes.
func readLegacy(ctx context.Context, runs Runs, run catalog.Run, t *turn) (*legacyNode, error) {
	var all []catalog.Attribute
	bytes := 0
	for cursor, more := "", true; more && bytes < maxAttributes; more = cursor != "" {
		page, next, err := runs.Attributes(ctx, run.ID, cursor)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			bytes += attributeCost + len(a.Path) + len(a.Value.Str)
		}
		all, cursor = append(all, page...), next
	}
	t.take(bytes)
	return legacyOf(run, all), nil
}

// legacyOf reads a run's attributes.
func legacyOf(run catalog.Run, attributes []catalog.Attribute) *legacyNode {
	text := map[string]string{}
	reports := map[string]*report.Stat{}
	var s section
	for _, a := range attributes {
		path, ok := strings.CutPrefix(a.Path, "config/")
		switch value := a.Value; {
		case ok && path == "is_port_open" && value.Type == model.TypeBool:
			s.portOpen = &value.Bool
		case ok && path == "version" && value.Type == model.TypeInt:
			s.version = &value.Int
		}
		if uid, of, isReport := strings.Cut(strings.TrimPrefix(path, "stats/"), "/"); isReport && strings.HasPrefix(path, "stats/") {
			readLegacyReport(reports, uid, of, a.Value)
		} else if ok {
			text[path] = textOf(a.Value)
		}
	}
	account, _, err := wallet.ParseAddress(text["hotkey"])
	if err != nil || text["signature"] == "" {
		return &legacyNode{run: run}
	}
	n := &legacyNode{run: run, role: text["role"], hotkey: account.String(), netuid: text["config/netuid"], section: s}
	n.judgement = state.CheckLegacy(account, run.Name, text["signature"])
	n.section.allocated = model.Clip(text["allocated"])
	n.section.reports.Stats = legacyReports(reports)
	return n
}

func legacyReports(reports map[string]*report.Stat) (out []report.Stat) {
	for uid, r := range reports {
		place, err := report.ReadUID(uid)
		if err != nil || r.GPU.Count < 0 || r.GPU.Count > report.MaxGPUs {
			continue
		}
		if r.UID = place; r.GPU.Name == "" {
			r.GPU = nil
		}
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b report.Stat) int { return cmp.Compare(a.UID, b.UID) })
	return slices.Clip(out[:min(len(out), MaxMiners)])
}

func textOf(v model.Value) string {
	if v.Type == model.TypeInt {
		return strconv.FormatInt(v.Int, 10)
	}
	return v.Str
}

func readLegacyReport(reports map[string]*report.Stat, uid, field string, v model.Value) {
	r := reports[uid]
	if r == nil {
		r = &report.Stat{GPU: new(report.GPU)}
		reports[uid] = r
	}
	switch field {
	case "hotkey":
		r.Hotkey = model.Clip(v.Str)
	case "score":
		r.Score = v.Float + float64(v.Int)
	case "own_score":
		r.OwnScore = v.Bool
	case "allocated":
		r.Allocated = v.Bool
	case "gpu_specs/gpu_name":
		r.GPU.Name = model.Clip(v.Str)
	case "gpu_specs/num_gpus":
		r.GPU.Count = int(v.Int)
	}
}
