package local_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// TestListOfMany: pages of a run of more series than a search looks at in one go,
// with series of the same name, against a sorted list.
func TestListOfMany(t *testing.T) {
	e, err := local.Open(t.Context(), local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := model.RunID{3}
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	batch := &model.Batch{Run: run, Writer: model.WriterID{1}, Attempt: 1, First: 1, Last: 1, Groups: []model.RowGroup{{TimeNs: []int64{1}, Seq: []uint64{1}}}}
	var all []model.SeriesKey
	for i := range 10_000 {
		key := model.NewSeriesKey(fmt.Sprintf("m%d", i%9_000), "", map[string]string{"i": fmt.Sprint(i)})
		all = append(all, key)
		batch.Groups[0].Columns = append(batch.Groups[0].Columns, model.Column{Series: key, Kind: model.KindFloat, Floats: []float64{1}})
	}
	if _, err := e.Append(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b model.SeriesKey) int { return strings.Compare(a.String(), b.String()) })
	for _, filter := range []store.SeriesFilter{
		{Limit: 777},
		{Limit: 5_000, Match: func(k model.SeriesKey) bool { return strings.HasSuffix(k.Metric, "7") }},
		{Limit: 1, Metric: "m12"},
		{Limit: 10_000, Metric: "m12"},
		{Limit: 10, Metric: "none"},
		{Limit: 500, After: all[4_321].String()},
	} {
		var want []string
		for _, key := range all {
			if key.String() > filter.After && (filter.Metric == "" || key.Metric == filter.Metric) && (filter.Match == nil || filter.Match(key)) {
				want = append(want, key.String())
			}
		}
		if got := listPages(t, e, run, filter); !slices.Equal(got, want) {
			t.Errorf("%+v: %s", filter, cmp.Diff(want, got))
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	looked := 0
	_, _, err = e.ListSeries(stopped, run, store.SeriesFilter{Limit: 1, Match: func(model.SeriesKey) bool { looked++; stop(); return false }})
	if model.CodeOf(err) != model.CodeTimeout || looked > 5_000 {
		t.Errorf("a search that nobody waits for: looked at %d, %v", looked, err)
	}
}

func listPages(t *testing.T, e *local.Engine, run model.RunID, f store.SeriesFilter) (keys []string) {
	t.Helper()
	for {
		page, more, err := e.ListSeries(t.Context(), run, f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > f.Limit || more && len(page) < f.Limit {
			t.Fatalf("%+v: %d series, more %v", f, len(page), more)
		}
		for i := range page {
			keys = append(keys, page[i].Key.String())
		}
		if !more {
			return keys
		}
		f.After = keys[len(keys)-1]
	}
}
