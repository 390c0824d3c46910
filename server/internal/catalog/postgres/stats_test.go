package postgres_test

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
)

// TestStats: one server tells another of news, once. A connection that PostgreSQL ends is counted.
func TestStats(t *testing.T) {
	pg := server.Any(t)
	place := pg.URL(t)
	one, two := openAt(t, place), openAt(t, place)
	there := listen(t, two)
	listen(t, one)
	there.until(t, "the other's start is known", func() bool { return there.losses > 1 })
	told, heard := uint64(1), two.Stats().Heard
	there.until(t, "the start is told once", func() bool { return one.Stats().Told == told })
	if heard != 1 {
		t.Errorf("the start was heard %d times", heard)
	}
	one.Publish(model.RunChange{Run: model.RunID{1}, Workspace: "w", Project: "p"})
	there.until(t, "the news", func() bool { return len(there.heard) == 1 })
	want := func(what string, is func(postgres.Stats) bool) {
		t.Helper()
		there.until(t, what, func() bool { return is(two.Stats()) })
	}
	want("one more is heard", func(s postgres.Stats) bool { return s.Heard == heard+1 })
	there.until(t, "one more is told", func() bool { return one.Stats().Told == told+1 })
	if s := two.Stats(); s.Broken != 0 || s.Reads.Most != 5 || s.Commits.Most != 2 || s.Reads.InUse+s.Commits.InUse > 7 {
		t.Errorf("%+v", s)
	}
	cut(t, pg, place)
	want("the break is counted", func(s postgres.Stats) bool { return s.Broken == 1 })
}
