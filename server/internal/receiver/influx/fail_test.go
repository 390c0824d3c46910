package influx

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// Whatever is to be sent again says when.
func TestWhatMayComeAgainSaysWhen(t *testing.T) {
	r := &Receiver{options: Options{Log: slog.New(slog.DiscardHandler)}}
	for _, code := range []model.Code{model.CodeDiskFull, model.CodeBusy, model.CodeUnavailable, model.CodeTimeout, model.CodeSlow, model.CodeSuperseded} {
		w := httptest.NewRecorder()
		r.fail(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), version2, model.Errorf(code, "later"))
		if w.Code != http.StatusServiceUnavailable && w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d %v", code, w.Code, w.Header())
		}
	}
}
