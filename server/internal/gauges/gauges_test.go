package gauges_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/gauges"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/receiver/otlp"
	"github.com/kymogram/kymogram/server/internal/receiver/promwrite"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/timing"
)

// number sets each number of a struct to one that no other has.
func number(v reflect.Value, path string, next *int64, set map[int64]string) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+"."+v.Type().Field(i).Name
		switch f.Kind() {
		case reflect.Struct:
			number(f, name, next, set)
		case reflect.Uint64:
			*next++
			f.SetUint(uint64(*next))
			set[*next] = name
		case reflect.Int, reflect.Int64:
			*next++
			f.SetInt(*next)
			if f.Type() == reflect.TypeFor[time.Duration]() { // shown in seconds
				f.SetInt(*next * int64(time.Second))
			}
			set[*next] = name
		}
	}
}

// shown fills a struct, and fails for each of its numbers that no metric has.
func shown[S any](t *testing.T, of func(S) []selfmetrics.Gauge, except ...string) {
	t.Helper()
	var s S
	next, set := int64(1000), map[int64]string{}
	number(reflect.ValueOf(&s).Elem(), reflect.TypeFor[S]().String(), &next, set)
	if len(set) == 0 {
		t.Fatalf("%T has no numbers", s)
	}
	for _, name := range except {
		for n, field := range set {
			if field == name {
				delete(set, n)
			}
		}
	}
	for _, g := range of(s) {
		delete(set, int64(g.Value))
		delete(set, int64(g.Count))
	}
	for _, field := range set {
		t.Errorf("%s is counted and not shown", field)
	}
}

// TestEachCountIsShown: what a part counts is a metric, once it is added.
func TestEachCountIsShown(t *testing.T) {
	shown(t, func(s store.Stats) []selfmetrics.Gauge { return gauges.Store(s, 0) })
	shown(t, func(s sqlite.Health) []selfmetrics.Gauge { return gauges.Catalog(s, false, 0, 0) })
	shown(t, gauges.Ingest)
	shown(t, func(s statelog.Stats) []selfmetrics.Gauge { return gauges.States(s, statelog.Health{}, false) })
	shown(t, gauges.Answers)
	shown(t, gauges.Shared,
		"server.Shared.Messages.Waiting", "server.Shared.Messages.WaitingFor", // what waits to arrive holds nothing
		"server.Shared.Answers.Waiting", "server.Shared.Answers.WaitingFor", "server.Shared.Calls.Waiting", "server.Shared.Calls.WaitingFor",
		"server.Shared.Files.Waiting", "server.Shared.Files.WaitingFor")
	shown(t, func(w promwrite.Totals) []selfmetrics.Gauge { return gauges.Unplaced(w, otlp.Stats{}) })
	shown(t, func(o otlp.Stats) []selfmetrics.Gauge { return gauges.Unplaced(promwrite.Totals{}, o) })
	shown(t, gauges.Definitions, "share.Stats.Waiting", "share.Stats.WaitingFor") // nobody waits
	shown(t, gauges.Points)
	shown(t, gauges.Cluster)
	shown(t, gauges.Database)
	shown(t, gauges.Bucket)
}

// TestNamesAreUnique: Prometheus refuses a page with one name twice.
func TestNamesAreUnique(t *testing.T) {
	names := map[string]bool{}
	for _, part := range [][]selfmetrics.Gauge{
		gauges.Store(store.Stats{}, 0), gauges.Catalog(sqlite.Health{}, true, 0, 0), gauges.Ingest(ingest.Stats{}),
		gauges.States(statelog.Stats{}, statelog.Health{}, true), gauges.Reserve(0, 0), gauges.Answers(httpapi.Stats{}),
		gauges.Shared(server.Shared{}), gauges.Unplaced(promwrite.Totals{}, otlp.Stats{}), gauges.Definitions(share.Stats{}), gauges.Points(share.Stats{}),
		gauges.Cluster(clickhouse.Work{}), gauges.Database(postgres.Stats{}), gauges.Bucket(timing.Stats{}),
	} {
		for _, g := range part {
			name := g.Name + g.Label["pool"]
			if names[name] || g.Help == "" {
				t.Errorf("%s: stands there twice, or has no help", name)
			}
			names[name] = true
		}
	}
}
