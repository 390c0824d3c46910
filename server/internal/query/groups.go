package query

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// The largest answers about groups of runs.
const (
	MaxGroupKeys  = 3
	MaxGroupKey   = 512 // bytes: no attribute's path is longer, and each group says its keys
	MaxColumns    = 100
	MaxRunColumns = 2_000 // of lists and files: with more than MaxColumns their pages are shorter
	DefaultGroups = 1_000
	MaxGroups     = 10_000
)

// GroupsRequest asks for all runs of a filter, by what they have in common, with statistics of
// their Columns.
type GroupsRequest struct {
	RunsRequest
	By []string // status, tag or an attribute's whole path; none: all runs are one group
	// Order is runs (default, descending), key, or a statistic of a column: mean:0, std:0,
	// min:0, max:0; "-" in front: descending.
	Order string
}

// Groups are those of all runs of a filter.
type Groups struct {
	Runs   int // of the filter, each once
	Groups int // there are, Shown may be fewer
	Shown  []Group
}

// Group is the runs whose keys have the same values. A run with several tags is in several.
type Group struct {
	Values  []model.Value // by key; the zero Value: they have none
	Member  string        // for RunsRequest.Group
	Runs    int
	Columns []Statistics

	places [MaxGroupKeys]uint32
	index  uint32
}

// Groups reads every run of a filter and groups it. Nothing is sampled.
func (s *Service) Groups(ctx context.Context, r GroupsRequest) (*Groups, error) {
	limit, err := pageSize(r.Limit, DefaultGroups, MaxGroups)
	if err != nil {
		return nil, err
	}
	if err := r.checkKeys(); err != nil {
		return nil, err
	}
	order, err := r.order()
	if err != nil {
		return nil, err
	}
	if err := s.checkList(ctx, &r.RunsRequest, MaxColumns); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	columns, err := s.columns(ctx, r)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	g := assign(columns)
	out := &Groups{Runs: len(columns.Runs), Groups: len(g.groups), Shown: slices.Clone(g.groups)}
	ordered := make([]Statistics, len(g.groups))
	if order.column >= 0 {
		g.add(columns, order.column, func(group uint32) *Statistics { return &ordered[group] })
	}
	slices.SortStableFunc(out.Shown, func(a, b Group) int { return order.compare(&a, &b, ordered, columns.Keys) })
	out.Shown = out.Shown[:min(limit, len(out.Shown))]
	g.count(columns, out.Shown)
	if err := s.nameEnds(ctx, out.Shown); err != nil {
		return nil, s.finish(ctx, err)
	}
	for i := range out.Shown {
		out.Shown[i].name(r.By, columns.Keys)
	}
	return out, nil
}

func (r *GroupsRequest) checkKeys() error {
	if len(r.By) > MaxGroupKeys {
		return model.Errorf(model.CodeInvalid, "%d keys, at most %d", len(r.By), MaxGroupKeys)
	}
	for i, key := range r.By {
		if len(key) > MaxGroupKey {
			return model.Errorf(model.CodeInvalid, "the key %s has %d bytes, no attribute's path has more than %d", model.Clip(key), len(key), MaxGroupKey)
		}
		// A run of 200 tags would be in eight million groups by tag, tag and tag.
		if slices.Contains(r.By[:i], key) {
			return model.Errorf(model.CodeInvalid, "the key %s is given twice", model.Clip(key)).WithHint("give each key once")
		}
	}
	return nil
}

// columns reads keys and numbers. What is at a step comes from the store.
func (s *Service) columns(ctx context.Context, r GroupsRequest) (*catalog.Columns, error) {
	f, err := s.runFilter(ctx, &r.RunsRequest, true)
	if err != nil {
		return nil, err
	}
	names := catalog.ColumnNames{Keys: r.By}
	places, steps := []int{}, map[int]filter.Metric{}
	for i, name := range r.Columns {
		m, resolved, err := readColumn(name)
		if err != nil {
			return nil, err
		}
		if m.Of == filter.AtStep {
			steps[i] = m
			continue
		}
		names.Numbers, places = append(names.Numbers, resolved), append(places, i)
	}
	c, err := s.runs.Columns(ctx, f, names)
	if err != nil {
		return nil, fmt.Errorf("read columns: %w", err)
	}
	all, nan := make([][]float64, len(r.Columns)), make([]map[int]bool, len(r.Columns))
	for i, place := range places {
		all[place], nan[place] = c.Numbers[i], c.NaN[i]
	}
	c.Numbers, c.NaN = all, nan
	return c, s.stepColumns(ctx, r, c, steps)
}

func (s *Service) stepColumns(ctx context.Context, r GroupsRequest, c *catalog.Columns, steps map[int]filter.Metric) error {
	if len(steps) == 0 {
		return nil
	}
	refs, err := s.runs.Refs(ctx, c.Runs)
	if err != nil {
		return fmt.Errorf("name runs: %w", err)
	}
	for place, m := range steps {
		values, err := s.atStep(ctx, r.Workspace, r.Project, m)
		if err != nil {
			return err
		}
		c.Numbers[place], c.NaN[place] = make([]float64, len(c.Runs)), map[int]bool{}
		for i := range refs {
			v, ok := values[refs[i].ID]
			if !ok {
				v = math.NaN()
			} else if math.IsNaN(v) {
				c.NaN[place][i] = true
			}
			c.Numbers[place][i] = v
		}
	}
	return nil
}

// readColumn reads the name of a column; resolved is the same without best.
func readColumn(name string) (m filter.Metric, resolved string, err error) {
	m, ok := filter.ParseMetric(name)
	if !ok {
		return m, name, nil
	}
	if m, ok = m.Resolved(); !ok {
		return m, "", model.Errorf(model.CodeInvalid, "the name %s does not say whether less is better", model.Clip(m.Name)).
			WithHint("ask for min(…) or max(…)")
	}
	return m, m.String(), nil
}

// assigned are the groups of runs, without their statistics: there may be a group for each run.
type assigned struct {
	groups  []Group
	members []member
}

type member struct{ run, group uint32 }

func assign(c *catalog.Columns) *assigned {
	g := &assigned{members: make([]member, 0, len(c.Runs))}
	at := map[[MaxGroupKeys]uint32]uint32{}
	group := func(places [MaxGroupKeys]uint32) uint32 {
		i, ok := at[places]
		if !ok {
			i = uint32(len(g.groups))
			at[places], g.groups = i, append(g.groups, Group{places: places, index: i})
		}
		return i
	}
	if len(c.Keys) == 0 {
		group([MaxGroupKeys]uint32{}) // all, also where there is no run
	}
	var put func(run int, places [MaxGroupKeys]uint32, key int)
	put = func(run int, places [MaxGroupKeys]uint32, key int) {
		if key == len(c.Keys) {
			i := group(places)
			g.groups[i].Runs++
			g.members = append(g.members, member{uint32(run), i})
			return
		}
		places[key] = c.Keys[key].Of[run]
		put(run, places, key+1)
		for _, more := range c.Keys[key].More[run] {
			places[key] = more
			put(run, places, key+1)
		}
	}
	for run := range c.Runs {
		put(run, [MaxGroupKeys]uint32{}, 0)
	}
	return g
}

// add adds up a column; of says where a group's statistics are, nil where nobody wants them.
func (g *assigned) add(c *catalog.Columns, column int, of func(group uint32) *Statistics) {
	values := c.Numbers[column]
	for _, m := range g.members {
		if v := values[m.run]; v == v || c.NaN[column][int(m.run)] {
			if s := of(m.group); s != nil {
				s.add(v, c.Runs[m.run])
			}
		}
	}
}

// count adds up all columns of the groups that are shown.
func (g *assigned) count(c *catalog.Columns, shown []Group) {
	at := make([]*Group, len(g.groups))
	for i := range shown {
		shown[i].Columns = make([]Statistics, len(c.Numbers))
		at[shown[i].index] = &shown[i]
	}
	for column := range c.Numbers {
		g.add(c, column, func(group uint32) *Statistics {
			if at[group] == nil {
				return nil
			}
			return &at[group].Columns[column]
		})
	}
}

// nameEnds names the runs with the least and the greatest values.
func (s *Service) nameEnds(ctx context.Context, groups []Group) error {
	var runs []int64
	var into []*catalog.Ref
	for i := range groups {
		for j := range groups[i].Columns {
			if c := &groups[i].Columns[j]; c.N > 0 {
				runs, into = append(runs, c.least, c.max), append(into, &c.MinRun, &c.MaxRun)
			}
		}
	}
	if len(runs) == 0 {
		return nil
	}
	refs, err := s.runs.Refs(ctx, runs)
	if err != nil {
		return fmt.Errorf("name runs: %w", err)
	}
	for i := range refs {
		*into[i] = refs[i]
	}
	return nil
}

// name fills in a group's values, and what lists its members.
func (g *Group) name(by []string, keys []catalog.GroupKey) {
	members := make([]memberDoc, len(by))
	g.Values = make([]model.Value, len(by))
	for i := range by {
		g.Values[i] = keys[i].Values[g.places[i]]
		members[i].Key = by[i]
		if g.Values[i].Type != "" {
			members[i].Value = &g.Values[i]
		}
	}
	if len(by) == 0 {
		return
	}
	text, _ := json.Marshal(members) // values of a catalog always marshal
	g.Member = base64.RawURLEncoding.EncodeToString(text)
}

type memberDoc struct {
	Key   string       `json:"k"`
	Value *model.Value `json:"v,omitempty"`
}

// readMember reads Group.Member.
func readMember(text string) ([]catalog.Member, error) {
	if text == "" {
		return nil, nil
	}
	var docs []memberDoc
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &docs)
	}
	if err != nil || len(docs) == 0 || len(docs) > MaxGroupKeys {
		return nil, model.Errorf(model.CodeInvalid, "the group is not valid").WithHint("give back `member` of a group")
	}
	out := make([]catalog.Member, len(docs))
	for i, d := range docs {
		out[i].Key = d.Key
		if d.Value != nil {
			out[i].Value = *d.Value
		}
	}
	return out, nil
}
