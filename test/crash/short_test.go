//go:build e2e

package crash

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/test/rig"
)

// TestShortOfMemory sends a server of 128 MiB more series than it can know, over HTTP
// and by an agent. It refuses in time and says so; with more memory nothing is missing.
func TestShortOfMemory(t *testing.T) {
	r := rig.New(t)
	r.Setenv("KYMOGRAM_MEMORY_LIMIT_MIB=128")
	s := r.Serve(t)
	c := s.Client(t)
	stored := pushUntilRefused(t, s)
	if c.Metric(t, "kymogram_store_memory_refused_total") == 0 {
		t.Error("the refusal is not counted")
	}
	const many = 50_000
	logSeries(t, r, s, many)
	before := c.Metric(t, "kymogram_store_memory_refused_total")
	rig.Eventually(t, 2*time.Minute, "a batch of the agent is refused", func() bool {
		out, err := r.Command(t, r.Binary(), "sync", "--spool", r.Spool, "--timeout", "3s").CombinedOutput()
		if err == nil {
			t.Fatalf("all was delivered: %s", out)
		}
		return c.Metric(t, "kymogram_store_memory_refused_total") > before
	})
	s.Stop(t)
	s.Restart(t) // as much memory as before
	if got := seriesOf(t, s, "default/short", "pushed"); got != stored {
		t.Errorf("%d series of %d that were acknowledged", got, stored)
	}
	s.Stop(t)
	r.Setenv("KYMOGRAM_MEMORY_LIMIT_MIB=1024")
	s.Restart(t)
	if answer, text := push(t, s, stored); answer.StatusCode != http.StatusNoContent {
		t.Errorf("what was refused is refused again: %s %s", answer.Status, text)
	}
	r.Sync(t)
	if got := seriesOf(t, s, "default/short", "pushed"); got != stored+pushed {
		t.Errorf("%d series of %d", got, stored+pushed)
	}
	if got := seriesOf(t, s, "default/short", "logged"); got != many {
		t.Errorf("%d series of %d that an agent delivered", got, many)
	}
}

// pushed is how many series a request has.
const pushed = 2000

// push sends series, each of one point and with a name of 1,000 bytes.
func push(t *testing.T, s *rig.Server, from int) (answer *http.Response, text string) {
	t.Helper()
	var body bytes.Buffer
	for i := from; i < from+pushed; i++ {
		fmt.Fprintf(&body, "m,run=pushed,s=%s%07d v=1 %d\n", strings.Repeat("x", 950), i, 1_700_000_000_000_000_000+i)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Address+"/api/v2/write?org=default&bucket=short&precision=ns", &body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Token "+s.Key(t))
	answer, err = http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	words, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(words)
}

func pushUntilRefused(t *testing.T, s *rig.Server) (stored int) {
	t.Helper()
	for ; stored < 200_000; stored += pushed {
		answer, text := push(t, s, stored)
		switch {
		case answer.StatusCode == http.StatusNoContent:
		case answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "" && strings.Contains(text, "memory"):
			t.Logf("%d series fit", stored)
			return stored
		default:
			t.Fatal(answer.Status, answer.Header, text)
		}
	}
	t.Fatal("200,000 series of 1,000 bytes fit into 33 MiB")
	return 0
}

// logSeries leaves a run of many series in the spool.
func logSeries(t *testing.T, r *rig.Rig, s *rig.Server, many int) {
	t.Helper()
	run, err := kymogram.Init(t.Context(), kymogram.Options{
		Server: s.Address, APIKey: s.Key(t), SpoolDir: r.Spool, Project: "short", RunName: "logged", NoUplink: true, NoSystemMetrics: true, NoEnvironment: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		if err := run.Log("m", float64(i), kymogram.Labels(map[string]string{"s": fmt.Sprintf("%s%06d", strings.Repeat("y", 950), i)})); err != nil {
			t.Fatal(err)
		}
	}
	_ = run.Close(context.WithoutCancel(t.Context())) // nothing delivers it yet
}

// seriesOf counts the series of a run.
func seriesOf(t *testing.T, s *rig.Server, project, run string) int {
	t.Helper()
	c := s.Client(t)
	var got struct {
		Series int `json:"series"`
	}
	c.Get(t, "/api/v1/runs/"+c.Run(t, project, run).ID, nil, &got)
	return got.Series
}
