package expose_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/metrics"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// writer is a program that logs into a spool.
type writer struct {
	*spool.Writer
	t  *testing.T
	id model.WriterID
}

func newWriter(t *testing.T, folder *spool.Folder) *writer {
	t.Helper()
	id := model.WriterID{1}
	w, err := spool.Create(folder, "http://127.0.0.1:1", model.OpenRequest{Writer: id, Workspace: "w", Project: "p", RunName: "r"}, spool.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = w.Close() })
	return &writer{w, t, id}
}

func (w *writer) log(metric string, value int64, labels map[string]string) {
	w.t.Helper()
	series, err := w.Series(model.KindInt, model.NewSeriesKey(metric, "", labels))
	if err == nil {
		err = w.Point(series, spool.FlagStep, 0, 1, uint64(value))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// public is what an endpoint says of metrics.
func public(t *testing.T, e *metrics.Endpoint) (lines []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	e.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "kymogram_metric") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// What was there before only says where gauges stand; what comes is read once, from
// public groups alone.
func TestGroupsArePublicFromNowOn(t *testing.T) {
	folder, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter(t, folder)
	w.log("train/a.count", 5, nil)
	w.log("train/lr", 7, nil)
	endpoint := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	x, err := expose.New(folder, []string{"train"}, endpoint.Exposition(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.log("train/a.count", 2, nil)
	w.log("secret/token", 1, nil)
	w.log("training/other", 1, nil)
	w.log("train/labelled", 1, map[string]string{"a": "b"})
	x.CatchUp(w.id)
	x.CatchUp(w.id)
	got := strings.Join(public(t, endpoint), "\n")
	if got != `kymogram_metric{group="train",name="lr"} 7`+"\n"+`kymogram_metric_events_total{group="train",name="a.count"} 2` {
		t.Error(got)
	}
}

func TestListen(t *testing.T) {
	taken, err := expose.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := expose.Check(taken.Addr().String()); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("an address in use: %v", err)
	}
	if err := expose.Check("127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}
