package ingest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// shelf is a catalog with runs of some age.
type shelf struct {
	ledger
	idle map[model.RunID]time.Time
}

func (s *shelf) Idle(_ context.Context, before time.Time, limit int) (out []catalog.Run, _ error) {
	for id, last := range s.idle {
		if last.Before(before) {
			out = append(out, catalog.Run{ID: id, LastNs: last.UnixNano()})
		}
	}
	slices.SortFunc(out, func(a, b catalog.Run) int { return cmp.Compare(a.LastNs, b.LastNs) })
	return out[:min(limit, len(out))], nil
}

func (s *shelf) Trash(context.Context, model.RunID, time.Time) error { return nil }

func (s *shelf) Purge(_ context.Context, id model.RunID) error {
	delete(s.idle, id)
	s.purged = append(s.purged, id)
	return nil
}

// weighed is a store whose runs take ten bytes each.
type weighed struct {
	shredder
	runs int64
}

func (w *weighed) LiveBytes() int64 { return 10 * (w.runs - int64(len(w.deleted))) }

func TestRetention(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ids := []model.RunID{{1}, {2}, {3}, {4}, {5}}
	for name, c := range map[string]struct {
		cfg  Config
		want []model.RunID
	}{
		"none":       {Config{}, nil},
		"age":        {Config{RetentionAge: 210 * time.Minute}, ids[:2]}, // 5, 4, 3, 2 and 1 hours old
		"size":       {Config{RetentionBytes: 39}, ids[:2]},
		"both":       {Config{RetentionAge: 210 * time.Minute, RetentionBytes: 25}, ids[:3]},
		"impossible": {Config{RetentionBytes: 1}, ids},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{idle: map[model.RunID]time.Time{}}
			for i, id := range ids {
				s.idle[id] = now.Add(time.Duration(i-len(ids)) * time.Hour)
			}
			w := &weighed{shredder: shredder{mu: &sync.Mutex{}}, runs: int64(len(ids))}
			service := New(c.cfg, Deps{Points: w, Space: w, Catalog: s, Live: &s.ledger, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			for range 2 { // a second look finds nothing to do
				if err := service.retain(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			if diff := gocmp.Diff([][]model.RunID{c.want, c.want}, [][]model.RunID{w.deleted, s.purged}); diff != "" {
				t.Errorf("freed and purged (-want +got):\n%s", diff)
			}
			if st := service.Stats(); int(st.RetiredAge+st.RetiredSize) != len(c.want) {
				t.Errorf("counted %d and %d", st.RetiredAge, st.RetiredSize)
			}
		})
	}
}
