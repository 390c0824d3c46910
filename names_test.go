package kymogram

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

// updatesOf are the changes of the run that were logged.
func updatesOf(t *testing.T, r *Run) []model.Update {
	t.Helper()
	var all []model.Update
	for _, one := range logged(t, r) {
		var updates []model.Update
		must(t, json.Unmarshal([]byte(one.value), &updates))
		all = append(all, updates...)
	}
	return all
}

func TestNamesThatMetranaTakes(t *testing.T) {
	r := offline(t, Options{})
	var said bytes.Buffer
	r.opts.Log = slog.New(slog.NewTextHandler(&said, nil))
	must(t,
		r.LogConfig(map[string]any{"": 1, "a//b": map[string]any{"": 2}, "/c/": 3, "é": 4}),
		r.LogAttributes("/top", 5),
		r.LogConfig(map[string]any{"seed": uint64(1<<64 - 1), "of": struct{ Seed uint64 }{1<<64 - 1}}),
		r.LogEnvAttributes("a&b", map[string]any{"x": 1}),
	)
	var got []string
	for _, u := range updatesOf(t, r) {
		doc, err := json.Marshal(u.Value)
		must(t, err)
		got = append(got, u.Env+" "+u.Path+" "+string(doc))
	}
	want := []string{
		` config/ {"type":"int64","value":1}`,
		` config//c/ {"type":"int64","value":3}`,
		` config/a//b/ {"type":"int64","value":2}`,
		` config/é {"type":"int64","value":4}`,
		` /top {"type":"int64","value":5}`,
		` config/of/Seed {"type":"string","value":"18446744073709551615"}`,
		` config/seed {"type":"string","value":"18446744073709551615"}`,
		`a&b x {"type":"int64","value":1}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := strings.Count(said.String(), "is kept"); n != 1 {
		t.Errorf("%d warnings of odd paths, want one:\n%s", n, &said)
	}
}

type rate string

// Keys and texts within nested values are free.
func TestWhatConfigurationsHold(t *testing.T) {
	r := offline(t, Options{})
	long := strings.Repeat("é", 40_000)
	must(t, r.LogConfig(map[string]any{
		"tench, Tinca tinca": 1, "a=b": 2, "tab\tand\x00": 3, "half\xff": 4, strings.Repeat("p", 600): 5, strings.Repeat("p", 601): 6,
		"long": long, "no text": "a\xff", "betas": []float32{0.5, float32(math.NaN())}, "rates": map[rate]rate{"x": "fast"}, "twice/a": 1,
		"twice": map[string]int{"a": 2}, "channel": struct{ C chan int }{}, "none": []int(nil), "bytes": []byte("ab"),
	}))
	got := map[string]string{}
	for _, u := range updatesOf(t, r) {
		path := strings.TrimPrefix(u.Path, "config/")
		if strings.HasPrefix(path, "ppp") && len(u.Path) == 512 {
			path = fmt.Sprint("long ", u.Value.Int)
		}
		got[path] = u.Value.Str
		if u.Value.Type == model.TypeFloat {
			got[path] = fmt.Sprint(u.Value.Float)
		}
		if u.Value.Type == model.TypeInt {
			got[path] = strconv.FormatInt(u.Value.Int, 10)
		}
	}
	want := map[string]string{
		"tench%2C%20Tinca%20tinca": "1", "a%3Db": "2", "tab%09and%00": "3", "half%FF": "4", "long 5": "5", "long 6": "6",
		"long": long[:65_436] + "… (cut: 80000 bytes)", "no%20text": "a\uFFFD", "betas/0": "0.5", "betas/1": "NaN",
		"rates/x": "fast", "twice/a": "1", "channel": "(struct { C chan int }: \"config/channel\" cannot be an attribute: json: unsupported type: chan int)", "bytes": "YWI=",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for prefix, what := range map[string]string{"a b": "white space", "sys/x": "reserved"} {
		if err := r.LogAttributes(prefix, 1); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// The server takes 1,000 tags in one change.
func TestManyTags(t *testing.T) {
	r := offline(t, Options{})
	names := make([]string, 2001)
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
	}
	must(t, r.SetTags(names...), r.RemoveTags(names[:1001]...), r.SetTags())
	var got, set []string
	for i, u := range updatesOf(t, r) {
		got = append(got, fmt.Sprintf("%s %d", u.Op, len(u.Tags)))
		if i < 3 {
			set = append(set, u.Tags...)
		}
	}
	want := []string{"set_tags 1000", "add_tags 1000", "add_tags 1", "remove_tags 1000", "remove_tags 1", "set_tags 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(names, set); diff != "" {
		t.Errorf("the tags (-want +got)\n%s", diff)
	}
}

func TestSpellingsOfVariables(t *testing.T) {
	for spelling, want := range map[string]Backpressure{
		"DropNew": BackpressureDropNew, "drop-new": BackpressureDropNew, "DROP_NEW": BackpressureDropNew, " Block ": BackpressureBlock, "": BackpressureSpool,
	} {
		o := Options{env: func(name string) string {
			return map[string]string{
				"METRANA_BACKPRESSURE_STRATEGY": spelling, "METRANA_ERROR_MODES": "RaiseOnClose", "METRANA_RESUME_STRATEGY": "Allow",
				"METRANA_EVENT_QUEUE_MAX_SIZE": "0", "METRANA_ORCHESTRATION_ID": "  ", "SLURM_JOB_ID": " 77\n", "METRANA_WORKSPACE": "w",
			}[name]
		}}
		must(t, o.settle())
		if o.Backpressure != want || o.ErrorStrategy != ErrorsRaiseOnClose || o.ResumeStrategy != ResumeAllow {
			t.Errorf("%q: %s %s %s", spelling, o.Backpressure, o.ErrorStrategy, o.ResumeStrategy)
		}
		if o.QueueCapacity != 1 || o.OrchestrationID != "77" || o.Workspace != "w" {
			t.Errorf("queue %d, job %q, workspace %q", o.QueueCapacity, o.OrchestrationID, o.Workspace)
		}
	}
}

// Children of this process may use Metrana's client.
func TestTheJobIsHandedToChildren(t *testing.T) {
	t.Setenv("METRANA_ORCHESTRATION_ID", "")
	offline(t, Options{OrchestrationID: "job-1"})
	for _, name := range []string{"KYMOGRAM_ORCHESTRATION_ID", "METRANA_ORCHESTRATION_ID"} {
		if got := os.Getenv(name); got != "job-1" {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// Only what the server says of the request itself ends Init: a proxy's or a newer
// server's answer, or one of a server in trouble, does not keep training from starting.
func TestInitBeginsOffline(t *testing.T) {
	for _, tt := range []struct {
		status  int
		body    string
		offline bool
	}{
		{429, `{"error":{"code":"rate_limited","message":"slowly"}}`, true},
		{404, `{"error":{"code":"not_found","message":"nothing here"}}`, true},
		{500, `{"error":{"code":"internal","message":"oops"}}`, true},
		{503, `{"error":{"code":"starting","message":"soon"}}`, true},
		{507, `{"error":{"code":"disk_full","message":"full"}}`, true},
		{502, `<html>`, true},
		{200, `{"run":5}`, true},
		{400, `{"error":{"code":"invalid_argument","message":"no"}}`, false},
		{401, `{"error":{"code":"unauthenticated","message":"no"}}`, false},
		{403, `{"error":{"code":"permission_denied","message":"no"}}`, false},
		{409, `{"error":{"code":"run_exists","message":"no"}}`, false},
		{410, `{"error":{"code":"run_deleted","message":"no"}}`, false},
	} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer server.Close()
			for _, name := range []string{envOrchestration, envMetranaOrchestration, envAttempt, envAttemptPID} {
				t.Setenv(name, "")
			}
			run, err := Init(t.Context(), Options{Server: server.URL, NoUplink: true, SpoolDir: t.TempDir(), Log: silent, env: func(string) string { return "" }})
			if offline := err == nil; offline != tt.offline {
				t.Fatalf("%s: %v", tt.body, err)
			}
			if run != nil {
				must(t, run.Log("x", 1))
				run.end(t.Context(), model.StatusFinished, "")
			}
		})
	}
}

func TestAMissingParentIsTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"run":"01M8085QWFDWZV5BG25CTV21D2","run_name":"r","parent_missing":true}`)
	}))
	defer server.Close()
	for _, name := range []string{envOrchestration, envMetranaOrchestration, envAttempt, envAttemptPID} {
		t.Setenv(name, "")
	}
	var said bytes.Buffer
	run, err := Init(t.Context(), Options{
		Server: server.URL, ForkFromRun: "nobody", NoUplink: true, NoEnvironment: true, SpoolDir: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(&said, nil)), env: func(string) string { return "" },
	})
	must(t, err)
	run.end(t.Context(), model.StatusFinished, "")
	if !strings.Contains(said.String(), "run=nobody") || !strings.Contains(said.String(), "not in the project") {
		t.Errorf("said %q", said.String())
	}
}
