package wandb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/mongo"
)

// defaultOrder is the oldest run first, as with the SDK since 0.17.
const defaultOrder = "+created_at"

// maxPage is how many runs a page has at most.
const maxPage = 1_000

// record is a run as filters see it.
type record struct{ *foundRun }

// Field gives a field as JSON.
func (r record) Field(name string) (value []byte, ok bool) {
	text := func(s string) ([]byte, bool) { return loose.AppendText(nil, s), s != "" }
	told := func(key string) ([]byte, bool) { return loose.Get(readOnly(r.about), key) }
	switch name {
	case "config":
		return readOnly(r.config), r.config != ""
	case "summaryMetrics":
		return readOnly(r.summary), r.summary != ""
	case "name":
		return text(r.Name)
	case "displayName":
		if r.DisplayName == "" {
			return text(r.Name)
		}
		return text(r.DisplayName)
	case "state":
		return text(state(r.Status))
	case "group":
		return told("group")
	case "jobType":
		return told("jobType")
	case "tags":
		list, err := json.Marshal(tagsOf(r.foundRun))
		return list, err == nil
	case "createdAt":
		return text(stamp(r.CreatedNs))
	case "heartbeatAt":
		return text(stamp(r.LastNs))
	case "username":
		return told("user")
	case "notes":
		return text(r.Description)
	case "host":
		return told("host")
	case "sweep":
		return told("sweepName")
	case "commit":
		return told("commit")
	case "program":
		return told("program")
	case "repo":
		return told("repo")
	case "duration":
		return []byte(itoa((r.LastNs - r.CreatedNs) / 1e9)), true
	case "project":
		return text(r.Project)
	case "entity":
		return text(r.Workspace)
	case "id":
		return text(node("Run", r.ID.String()))
	}
	return nil, false
}

// Index is where the members of a field lie.
func (r record) Index(name string) loose.Index {
	switch name {
	case "config":
		return indexOf(r.config, r.configNote)
	case "summaryMetrics":
		return indexOf(r.summary, r.summaryNote)
	}
	return nil
}

// listed is a list that was asked for, so that its pages are of one moment.
type listed struct {
	ids           []model.RunID
	made, expires time.Time
}

// lists keeps what pages go on with: the runs of a filter, in their order. Pages of a
// project without a filter, by age, need none.
type lists struct {
	mu  sync.Mutex
	by  map[string]listed
	now func() time.Time
}

// How long a list is kept since its last page, and how many runs all of them have at most.
const (
	listLife = 2 * time.Minute
	listMost = 1_000_000
)

func (l *lists) put(key string, ids []model.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, sum := l.now(), len(ids)
	for k, v := range l.by {
		if now.After(v.expires) {
			delete(l.by, k)
		} else {
			sum += len(v.ids)
		}
	}
	if sum > listMost {
		clear(l.by)
	}
	l.by[key] = listed{ids, now, now.Add(listLife)}
}

// get gives a list that is not older than since.
func (l *lists) get(key string, since time.Time) ([]model.RunID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.by[key]
	if !ok || l.now().After(v.expires) || v.made.Before(since) {
		return nil, false
	}
	v.expires = l.now().Add(listLife)
	l.by[key] = v
	return v.ids, true
}

// selection is what a list of runs is asked for.
type selection struct {
	at     place
	filter *mongo.Filter
	order  mongo.Order
	// byAge: there is no other order, and newest says which. Their list is one, the oldest
	// first, so that the count of a filter is the count of its list.
	byAge, newest bool
	key           string
}

func selectionOf(at place, args graph.Args) (*selection, error) {
	text := args.Text("filters")
	if inner, is := args["filters"].(map[string]any); is {
		raw, err := json.Marshal(inner)
		if err != nil {
			return nil, err
		}
		text = string(raw)
	}
	filter, err := mongo.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	order := args.Text("order")
	if order == "" {
		order = defaultOrder
	}
	s := &selection{at: at, filter: filter, key: strings.Join([]string{at.entity, at.project, text}, "\x00")}
	switch order {
	case "+created_at", "created_at", "+createdAt", "createdAt":
		s.byAge = true
	case "-created_at", "-createdAt":
		s.byAge, s.newest = true, true
	default:
		s.order, err = mongo.ParseOrder(order)
		s.key += "\x00" + order
	}
	return s, err
}

// trees are those that filter and order look into: each costs a read for every run.
func (s *selection) trees() (names []string) {
	for _, field := range mongo.Fields() {
		name := treeOf(field)
		if name != "" && !slices.Contains(names, name) && s.uses(field) {
			names = append(names, name)
		}
	}
	return names
}

// uses says whether filter or order look at a field.
func (s *selection) uses(field string) bool { return s.filter.Uses(field) || s.order.Uses(field) }

// treeOf is the tree that a field of a record is in, "" for one of the run itself.
func treeOf(field string) string {
	switch field {
	case "config":
		return treeConfig
	case "summaryMetrics":
		return treeSummary
	case "group", "jobType", "username", "host", "sweep", "commit", "program", "repo":
		return treeAbout
	}
	return ""
}

// each gives the runs of a selection, by age, with the trees that the selection looks into.
// A run is given until do returns.
func (r *Receiver) each(ctx context.Context, s *selection, do func(run *foundRun) error) error {
	q := catalog.TreeQuery{Workspace: s.at.entity, Project: s.at.project, Names: s.trees(), Brief: !s.uses("notes") && !s.uses("tags")}
	found := new(foundRun) // one for all: most are looked at and left
	for run, err := range r.query.RunsWithTrees(ctx, q) {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // a filter may take its time with each run
			return err
		}
		*found = *foundOf(&run, q.Names)
		is, err := s.filter.Match(record{found})
		if err != nil {
			return err
		}
		if is {
			if err := do(found); err != nil {
				return err
			}
		}
	}
	return nil
}

// ids lists the runs of a selection in its order.
func (r *Receiver) ids(ctx context.Context, s *selection) ([]model.RunID, error) {
	var ids []model.RunID
	if s.byAge {
		err := r.each(ctx, s, func(run *foundRun) error {
			ids = append(ids, run.ID)
			return nil
		})
		return ids, err
	}
	type ranked struct {
		id  model.RunID
		key mongo.Key
	}
	var all []ranked
	err := r.each(ctx, s, func(run *foundRun) error {
		all = append(all, ranked{run.ID, s.order.Key(record{run})})
		return nil
	})
	slices.SortStableFunc(all, func(a, b ranked) int { return s.order.Compare(a.key, b.key) })
	for i := range all {
		ids = append(ids, all[i].id)
	}
	return ids, err
}

// list is the runs of a selection: anew for a request that begins with the first page, else
// those of the page before, where they are kept.
func (r *Receiver) list(ctx context.Context, s *selection) ([]model.RunID, error) {
	if ids, ok := r.lists.get(s.key, sinceOf(ctx)); ok {
		return ids, nil
	}
	ids, err := r.ids(ctx, s)
	if err == nil {
		r.lists.put(s.key, ids)
	}
	return ids, err
}

// sinceKey is the key of a context's since.
type sinceKey struct{}

// sinceOf is how old a list may be that a request goes on with: any age where it asks for a
// later page, else not older than the request.
func sinceOf(ctx context.Context) time.Time {
	at, _ := ctx.Value(sinceKey{}).(time.Time)
	return at
}

// began puts into a context how old lists may be.
func began(ctx context.Context, variables map[string]any, now time.Time) context.Context {
	for _, name := range []string{"cursor", "after"} {
		if at, _ := variables[name].(string); at != "" {
			return ctx
		}
	}
	return context.WithValue(ctx, sinceKey{}, now)
}

// runCount counts the runs of a filter.
func (r *Receiver) runCount(ctx context.Context, at place, args graph.Args) (graph.Field, error) {
	s, err := selectionOf(at, args)
	if err != nil {
		return nil, err
	}
	if s.filter.All() {
		n, err := r.query.CountRuns(ctx, at.entity, at.project)
		return n, err
	}
	ids, err := r.list(ctx, s)
	return len(ids), err
}

// runs is a page of the runs of a filter. A cursor is the number of runs before it; of all
// runs by age, the place of the last one.
func (r *Receiver) runs(ctx context.Context, at place, args graph.Args) (graph.Field, error) {
	first, err := args.Int("first", 50)
	if err != nil {
		return nil, err
	}
	s, err := selectionOf(at, args)
	if err != nil {
		return nil, err
	}
	limit := int(min(max(first, 1), maxPage))
	if s.byAge && s.filter.All() {
		return r.aged(ctx, s, args.Text("after"), limit)
	}
	from := int64(0)
	if cursor := args.Text("after"); cursor != "" {
		if from, err = strconv.ParseInt(cursor, 10, 64); err != nil || from < 0 {
			return nil, badCursor(cursor)
		}
	}
	ids, err := r.list(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.newest {
		ids = slices.Clone(ids)
		slices.Reverse(ids)
	}
	from = min(from, int64(len(ids)))
	to := min(from+int64(limit), int64(len(ids)))
	more := to < int64(len(ids))
	ids = ids[from:to]
	places := make(map[model.RunID]int64, len(ids))
	for i, id := range ids {
		places[id] = from + int64(i) + 1
	}
	edges := make([]edge, 0, len(ids))
	if len(ids) == 0 {
		return connection(edges, itoa(to), more), nil
	}
	q := catalog.TreeQuery{Workspace: at.entity, Project: at.project, Names: treesOfRun(), IDs: ids}
	for run, err := range r.query.RunsWithTrees(ctx, q) { // not those that were deleted since the list was made
		if err != nil {
			return nil, err
		}
		edges = append(edges, edge{r.runFields(foundOf(&run, q.Names)), itoa(places[run.ID])})
	}
	return connection(edges, itoa(to), more), nil
}

// aged is a page of all runs by age.
func (r *Receiver) aged(ctx context.Context, s *selection, cursor string, limit int) (graph.Field, error) {
	q := catalog.TreeQuery{Workspace: s.at.entity, Project: s.at.project, Newest: s.newest, Names: treesOfRun()}
	if cursor != "" {
		if n, err := fmt.Sscanf(cursor, "%d.%d", &q.After.CreatedNs, &q.After.Number); n != 2 || err != nil {
			return nil, badCursor(cursor)
		}
	}
	var edges []edge
	end := cursor
	for run, err := range r.query.RunsWithTrees(ctx, q) {
		if err != nil {
			return nil, err
		}
		if len(edges) == limit {
			return connection(edges, end, true), nil
		}
		end = fmt.Sprintf("%d.%d", run.Place.CreatedNs, run.Place.Number)
		edges = append(edges, edge{r.runFields(foundOf(&run, q.Names)), end})
	}
	return connection(edges, end, false), nil
}

func badCursor(cursor string) error {
	return model.Errorf(model.CodeInvalid, "the cursor %q does not belong to this list", model.Clip(cursor))
}
