package doctor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/doctor"
)

// server answers as Kymogram does, at a time and with its own figures.
func server(t *testing.T, clock time.Duration, figures string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/server", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "kymogram", "version": "9", "auth": true, "time_ns": time.Now().Add(clock).UnixNano()})
	})
	mux.HandleFunc("/api/v1/projects", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"unauthenticated","message":"the key is unknown"}}`)
			return
		}
		fmt.Fprint(w, `{}`)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, figures) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestExamine(t *testing.T) {
	spool := t.TempDir()
	well := "kymogram_store_points 3\nkymogram_store_runs 1\n"
	for name, tt := range map[string]struct {
		server, key string
		wrong       string // the findings that are not good
		says        string
	}{
		"well":      {server(t, 0, well), "right", "", "3 points of 1 runs, 0 MiB; nothing damaged was met"},
		"clock":     {server(t, time.Hour, well), "right", "clock", "this clock and the server's differ by"},
		"key":       {server(t, 0, well), "wrong", "key", "the key is unknown"},
		"no key":    {server(t, 0, well), "", "key", "there is no key for this server"},
		"away":      {"http://127.0.0.1:1", "right", "server", "http://127.0.0.1:1: the server cannot be reached"},
		"poisoned":  {server(t, 0, "kymogram_store_poisoned 1\n"), "right", "store", "the store stopped after the disk failed a write"},
		"full":      {server(t, 0, "kymogram_store_disk_full 1\n"), "right", "store", "the server's disk is full; reads work"},
		"damaged":   {server(t, 0, "kymogram_store_quarantined_total 2\n"), "right", "store", "the server met 2 damaged files or ranges"},
		"lost runs": {server(t, 0, doctor.RecoveredRuns+" 4\n"), "right", "catalog", "the catalog had lost 4 runs"},
	} {
		d := doctor.Examine(t.Context(), doctor.Question{
			Version: "1", Spool: spool, Server: tt.server, Key: tt.key, Recovered: "recovered/recovered", Env: func(string) string { return "" },
		})
		var wrong, said []string
		for _, f := range d.Findings {
			if said = append(said, f.Detail); !f.OK {
				wrong = append(wrong, f.Name)
			}
		}
		if strings.Join(wrong, ",") != tt.wrong || d.OK != (tt.wrong == "") || !strings.Contains(strings.Join(said, "\n"), tt.says) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestAMissingSpoolKeepsTheServerFromNothing(t *testing.T) {
	d := doctor.Examine(t.Context(), doctor.Question{Spool: t.TempDir() + "/missing", Server: server(t, 0, ""), Key: "right", Env: func(string) string { return "" }})
	last := d.Findings[len(d.Findings)-1]
	if d.OK || d.Findings[1].OK || !strings.Contains(d.Findings[1].Detail, "there is no spool at") || last.Name != "catalog" {
		t.Errorf("%+v", d)
	}
}

func TestPrint(t *testing.T) {
	d := &doctor.Diagnosis{OK: true, Findings: []doctor.Finding{{Name: "key", OK: true, Detail: "accepted"}}}
	if d.Err() != nil {
		t.Error(d.Err())
	}
	defer func() {
		if err := d.Err(); err == nil || err.Error() != "1 of 2 checks failed: store" {
			t.Error(err)
		}
	}()
	d.OK, d.Findings = false, append(d.Findings, doctor.Finding{Name: "store", Detail: "it\x1b stopped", Hint: "start it"})
	var out strings.Builder
	want := "ok    key      accepted\nFAIL  store    it\ufffd stopped\n               start it\n"
	if err := d.Print(&out); err != nil || out.String() != want || d.Err() == nil {
		t.Errorf("%v, %v\n%s", err, d.Err(), out.String())
	}
}
