package logs_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/logs"
)

// TestNothingToPrint: a run without lines, and one whose lines are of another stream, are told apart.
func TestNothingToPrint(t *testing.T) {
	const stdout = `{"metric":"console","kind":"text","labels":{"stream":"stdout"},"last":{"step":0}}`
	for name, tt := range map[string]struct {
		series, stream, says string
	}{
		"no lines":                   {"", "", "The run has no lines."},
		"another stream":             {stdout, "stderr", "No line of the run is of this stream and time."},
		"none asked for of a stream": {stdout, "stdout", ""},
		"none asked for":             {stdout, "", ""},
		"a metric so named":          {`{"metric":"console","kind":"float64","last":{}}`, "", "The run has no lines."},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"series":[` + tt.series + `],"next":null}`))
		}))
		t.Cleanup(server.Close)
		var out, errs strings.Builder
		o := &logs.Options{Server: &remote.Client{Base: server.URL}, Run: "r", Stream: tt.stream, Out: &out, Err: &errs}
		if err := logs.Print(t.Context(), o); err != nil || out.Len() > 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
		if said := errs.String(); !strings.HasPrefix(said, tt.says) || (said == "") != (tt.says == "") {
			t.Errorf("%s: %q", name, said)
		}
	}
}
