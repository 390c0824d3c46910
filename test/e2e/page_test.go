//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// view is what page.mjs saw at one address.
type view struct {
	Path    string
	Picture string
	Ms      int
	Text    string
	Error   string
	Cards   []card
	Panels  []shown
}

type card struct {
	Metric, Title, Last string
	Points, Ink         int
	Marks               []string
}

// look opens addresses in Chromium, signed in, and returns what is drawn there.
func look(t *testing.T, r *rig.Rig, server *rig.Server, paths ...string) []view {
	t.Helper()
	return lookFrom(t, r, server.LoginLink(t), "", paths...)
}

// lookFrom opens a link in a browser of its own, then the addresses. An error of the
// browser's console fails the test, unless it holds expected.
func lookFrom(t *testing.T, r *rig.Rig, link, expected string, paths ...string) []view {
	t.Helper()
	pictures := filepath.Join(r.Root, "test-results")
	if err := os.MkdirAll(pictures, 0o750); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"test/e2e/page.mjs", "look", link, pictures}, paths...)
	cmd := r.Command(t, "node", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("page.mjs: %v\n%s", err, out)
	}
	var views []view
	for line := range strings.Lines(string(out)) {
		var v view
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("page.mjs said %q: %v", line, err)
		}
		if v.Error != "" && expected != "" && strings.Contains(v.Error, expected) {
			continue
		}
		if v.Error != "" {
			t.Errorf("the browser's console: %s", v.Error)
			continue
		}
		views = append(views, v)
	}
	if len(views) != len(paths) {
		t.Fatalf("%d of %d views", len(views), len(paths))
	}
	return views
}

// demoPage asserts on what the page draws of the demo's runs.
func demoPage(t *testing.T, r *rig.Rig, server *rig.Server) {
	c := server.Client(t)
	best, broken := c.Run(t, "demo/digits", "lr0.3-seed1"), c.Run(t, "demo/digits", "lr0.8-seed1")
	others := make([]string, 0, 6)
	for _, run := range c.Runs(t, "demo/digits") {
		if run.ID != best.ID {
			others = append(others, run.ID)
		}
	}
	agent := c.Run(t, "demo/cartpole", "a2c-seed2")
	views := look(t, r, server,
		"/projects/demo/digits=>demo-runs",
		"/runs/"+best.ID+"=>demo-run",
		"/runs/"+best.ID+"?with="+strings.Join(others, ",")+"=>demo-six",
		"/runs/"+broken.ID+"=>demo-broken",
		"/runs/"+agent.ID+"=>demo-cartpole",
	)
	for _, run := range c.Runs(t, "demo/digits") {
		if !strings.Contains(views[0].Text, run.Name) {
			t.Errorf("the list does not show %s", run.Name)
		}
	}
	mustDraw(t, c, best.ID, views[1], 8)
	mustDraw(t, c, broken.ID, views[3], 8)
	mustDraw(t, c, agent.ID, views[4], 5)
	if six := find(views[2], "train/loss"); six.Ink <= find(views[1], "train/loss").Ink {
		t.Errorf("six runs leave %d coloured pixels, one leaves %d", six.Ink, find(views[1], "train/loss").Ink)
	}
	if marks := find(views[3], "train/loss").Marks; !slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(m, "NaN") }) {
		t.Errorf("the run that broke shows the marks %v and no NaN", marks)
	}
}

func find(v view, metric string) card {
	for _, c := range v.Cards {
		if c.Metric == metric {
			return c
		}
	}
	return card{}
}

// mustDraw: at least so many cards, each with ink, each last value the API's.
func mustDraw(t *testing.T, c *rig.Client, run string, v view, cards int) {
	t.Helper()
	if len(v.Cards) < cards {
		t.Errorf("%s: %d cards are drawn, want at least %d", v.Path, len(v.Cards), cards)
	}
	last := map[string][]float64{}
	for _, s := range c.Series(t, run) {
		if f, err := strconv.ParseFloat(rig.Text(s.Last.Value), 64); err == nil {
			last[s.Metric] = append(last[s.Metric], f)
		}
	}
	for _, card := range v.Cards {
		if card.Ink < 100 {
			t.Errorf("%s: the chart of %s has %d coloured pixels", v.Path, card.Metric, card.Ink)
		}
		if card.Last == "" && len(last[card.Metric]) > 1 {
			continue // several lines have no one last value
		}
		shown, err := strconv.ParseFloat(strings.NewReplacer(",", "", "−", "-").Replace(card.Last), 64)
		if err != nil {
			shown, err = strconv.ParseFloat(card.Last, 64)
		}
		same := func(f float64) bool { return f == shown || f != f && shown != shown || abs(f-shown) <= 1e-9*abs(f) }
		if err != nil || !slices.ContainsFunc(last[card.Metric], same) {
			t.Errorf("%s: %s shows the last value %q, the API has %v", v.Path, card.Metric, card.Last, last[card.Metric])
		}
	}
}

func abs(f float64) float64 { return max(f, -f) }

// A point is visible in an open page at most a second after log().
func TestPageIsLive(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	loop := r.Python(t, "test/e2e/live.py", "--server", server.Address)
	loopIn, err := loop.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	loopOut := start(t, loop)
	if !loopOut.Scan() { // the first point is logged
		t.Fatal("live.py said nothing")
	}
	c := server.Client(t)
	rig.Eventually(t, 10*time.Second, "the run has a series", func() bool {
		runs := c.Runs(t, "default/live")
		return len(runs) == 1 && len(c.Series(t, runs[0].ID)) == 1
	})
	run := c.Run(t, "default/live", "live")

	node := r.Command(t, "node", "test/e2e/page.mjs", "watch", server.LoginLink(t), "/runs/"+run.ID, "value")
	nodeIn, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer nodeIn.Close()
	nodeOut := start(t, node)
	seen := func() (value string, at int64) {
		for nodeOut.Scan() {
			var line struct {
				Value, Error string
				At           int64
			}
			if err := json.Unmarshal(nodeOut.Bytes(), &line); err != nil {
				t.Fatalf("page.mjs said %q", nodeOut.Text())
			}
			if line.Error != "" {
				t.Errorf("the browser's console: %s", line.Error)
			}
			if line.Value != "" {
				return line.Value, line.At
			}
		}
		t.Fatal("page.mjs ended")
		return "", 0
	}
	seen() // the page is open and shows the first point

	var took []time.Duration
	for want := 1; want <= 10; want++ {
		if _, err := loopIn.Write([]byte("log\n")); err != nil || !loopOut.Scan() {
			t.Fatalf("live.py ended: %v", err)
		}
		logged, err := strconv.ParseInt(loopOut.Text(), 10, 64) // ns, taken after log() returned
		if err != nil {
			t.Fatalf("live.py said %q", loopOut.Text())
		}
		for {
			value, at := seen()
			if value == strconv.Itoa(want) {
				took = append(took, time.Duration(at)*time.Millisecond-time.Duration(logged))
				break
			}
		}
	}
	slices.Sort(took)
	t.Logf("from log() to the page: median %v, worst %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)-1] > time.Second {
		t.Errorf("a point took %v to be seen", took[len(took)-1])
	}
}
