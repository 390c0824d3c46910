package query_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// across is a store that says what was asked of it.
type across struct {
	*fake
	asked store.AcrossRequest
	gives error
}

func (a *across) Across(ctx context.Context, r store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		a.asked = r
		if a.stuck {
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		if yield(a.rows, nil) && a.gives != nil {
			yield(nil, a.gives)
		}
	}
}

func (a *across) read(t *testing.T, limit time.Duration) (rows int, err error) {
	t.Helper()
	s := query.New(a, a, a, a, query.Limits{Time: limit})
	for _, err := range s.Across(t.Context(), query.AcrossRequest{Run: model.RunID{0xaa}, Metrics: []string{"loss"}}) {
		if err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}

func TestAcross(t *testing.T) {
	a := &across{fake: newFake()}
	// The run was named by an alias; the store knows its ULID.
	if n, err := a.read(t, time.Minute); n != 1 || err != nil || a.asked.Run != a.run.ID || a.asked.Metrics[0] != "loss" {
		t.Errorf("%d rows, %v, asked for %+v", n, err, a.asked)
	}
	a.gives = model.Errorf(model.CodeNotFound, "no run") // without a point yet
	if n, err := a.read(t, time.Minute); n != 1 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	a.gives = errors.New("a disk")
	if _, err := a.read(t, time.Minute); !errors.Is(err, a.gives) {
		t.Error(err)
	}
	a.stuck = true
	if _, err := a.read(t, time.Millisecond); model.CodeOf(err) != model.CodeTimeout {
		t.Error(err)
	}
	a.run.DeletedNs, a.stuck = 1, false
	if n, err := a.read(t, time.Minute); n != 0 || model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("%d rows of a run in the trash, %v", n, err)
	}
}

func TestDescribe(t *testing.T) {
	f := newFake()
	s := f.service(time.Minute)
	for key, found := range map[*model.SeriesKey]bool{
		{Metric: "loss", Scale: model.ScaleStep}:                                                 true,
		{Metric: "loss", Scale: model.ScaleEpisode}:                                              false,
		{Metric: "loss", Scale: model.ScaleStep, Labels: []model.Label{{Name: "a", Value: "b"}}}: false,
		{Metric: "acc", Scale: model.ScaleStep}:                                                  false,
	} {
		got, err := s.Describe(t.Context(), f.run.ID, *key)
		if err != nil || (got != nil) != found || found && got.ID != 7 {
			t.Errorf("%v: %+v, %v", key, got, err)
		}
	}
}
