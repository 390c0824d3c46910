package scrape

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/remote"
)

func TestFind(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = io.WriteString(w, `[{"targets":["1.2.3.4:5"],"labels":{"hotkey":"5F"}}]`)
	}))
	defer s.Close()
	list, err := Find(&remote.Client{Base: s.URL}, "27")(t.Context())
	if err != nil || asked != "/sd/bittensor?netuid=27" || len(list) != 1 || list[0].Targets[0] != "1.2.3.4:5" || list[0].Labels["hotkey"] != "5F" {
		t.Errorf("%s: %+v, %v", asked, list, err)
	}
	var out strings.Builder
	if err := (Result{Targets: 2, Up: 1, Values: 3}).Print(&out); err != nil || out.String() != "1 of 2 targets are up: 3 values logged, 0 refused\n" {
		t.Errorf("%v, %s", err, out.String())
	}
}
