package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// A failure that a stream tells in its own words is counted by its code: for gRPC such a
// call ended well.
func TestFailuresOfAStreamAreCounted(t *testing.T) {
	g := &guardedStream{server: &Server{metrics: selfmetrics.New("test")}, method: "/service/Stream"}
	failed := &kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Failure{Failure: &kymogramv1.Failure{Code: string(model.CodeBusy)}}}
	for _, answer := range []any{failed, failed, &kymogramv1.StreamResponse{}, &kymogramv1.Failure{}} {
		g.noteFailure(answer)
	}
	w := httptest.NewRecorder()
	g.server.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := `kymogram_grpc_failures_total{code="busy",method="/service/Stream"} 2`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("/metrics does not say %s", want)
	}
}
