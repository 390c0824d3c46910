package native_test

import (
	"context"
	"slices"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// A document that is longer than the share of every caller is made anew once the memory
// of a long answer is there: who waits holds none.
func TestLongDocumentWaits(t *testing.T) {
	var order []string
	n := startWith(t, func(_ *query.RunDetail, most int) ([]byte, error) {
		order = append(order, "made")
		if most < 1<<20 {
			return nil, model.Errorf(model.CodeTooLarge, "longer than %d", most)
		}
		return []byte("long"), nil
	}, func(context.Context, int64) (func(), query.Admit, error) {
		return func() {}, func(context.Context) error { order = append(order, "waited"); return nil }, nil
	})
	s := n.open(1)
	run := s.opened.Run.String()
	got, err := kymogramv1.NewRunServiceClient(n.conn).GetRun(t.Context(), &kymogramv1.GetRunRequest{Id: run})
	if err != nil || string(got.Detail) != "long" || !slices.Equal(order, []string{"made", "waited", "made"}) {
		t.Errorf("%v: %v, %v", order, got, err)
	}
}
