//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// A server is backed up while a training logs, goes on, is lost, and comes back
// from the backup: the training goes on too, and the ledger names exactly the
// records that are gone.
func TestRestoreToAnOlderState(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	stop := filepath.Join(r.Dir, "stop")
	early := r.StartLoop(t, server.Address, "early", "--count", "300")
	early.Wait(t)
	loop := r.StartLoop(t, server.Address, "late", "--pause", "0.0002", "--until", stop)
	loop.WaitOpen(t)
	c := server.Client(t)
	points := func(run string) (n int) {
		for _, s := range c.Series(t, c.Run(t, "default/crash", run).ID) {
			n += s.Count
		}
		return n
	}
	rig.Eventually(t, 20*time.Second, "points arrive", func() bool {
		return len(c.Runs(t, "default/crash")) == 2 && points("late") > 500
	})

	view := func(name string) string {
		return r.CLI(t, "view", "get", "default/crash/"+name, "--server", server.Address, "--key", server.Key(t))
	}
	kept := map[string]string{ // as they were stored before views had ranges, and with them
		"plain":    `{"format":1,"title":"Plain","panels":[{"title":"p","kind":"line","query":{"metrics":["**"]}}]}`,
		"narrowed": `{"format":1,"title":"Narrowed","last":"24h","axes":{"step":[-5,9007199254740992]},"panels":[{"title":"p","kind":"line","query":{"metrics":["**"]}}]}`,
	}
	for name, text := range kept {
		file := filepath.Join(r.Dir, name+".json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r.CLI(t, "view", "apply", file, "--project", "default/crash", "--server", server.Address, "--key", server.Key(t))
	}
	backup := filepath.Join(r.Dir, "backup")
	atLeast := points("late")
	r.CLI(t, "data", "backup", "--data", server.Data, "--to", backup)
	var survey struct {
		OK    bool `json:"ok"`
		Store struct {
			Records int `json:"log_records"`
		} `json:"store"`
	}
	for _, folder := range []string{backup, server.Data} {
		if err := json.Unmarshal([]byte(r.CLI(t, "data", "verify", "--json", "--data", folder)), &survey); err != nil || !survey.OK || survey.Store.Records == 0 {
			t.Fatalf("%s: %+v, %v", folder, survey, err)
		}
	}
	// The client drops what is acknowledged when its segment is full: the backup
	// is older than that.
	rig.Eventually(t, 60*time.Second, "the client drops what it delivered", func() bool {
		return points("late") > atLeast+30_000
	})
	server.Kill(t)
	if err := os.Rename(server.Data, server.Data+".lost"); err != nil {
		t.Fatal(err)
	}
	r.CLI(t, "data", "restore", "--from", backup, "--data", server.Data)
	server.Restart(t)
	for name, text := range kept {
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(view(name)), &got)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the view %s came back as %v, %v", name, got, err)
		}
	}
	back := points("late")
	rig.Eventually(t, 30*time.Second, "the training goes on", func() bool { return points("late") > back+100 })
	end(t, stop)
	loop.Wait(t)
	r.Sync(t)

	if n := points("early"); n != 300 {
		t.Errorf("%d of 300 points of the run that had ended are there", n)
	}
	run := c.Run(t, "default/crash", "late").ID
	var doc struct {
		Ledger struct {
			Logged, Stored int
			Skipped        []struct {
				First, Last int
				Reason      string
			}
		}
	}
	c.Get(t, "/api/v1/runs/"+run, nil, &doc)
	seen, logged := map[string]int{}, loop.Returned()
	for _, v := range c.Points(t, run, "value", "ML_STEP", nil)["value"] {
		seen[rig.Text(v)]++
	}
	missing := 0
	for n := range logged {
		switch seen[strconv.Itoa(n)] {
		case 0:
			missing++
		case 1:
		default:
			t.Errorf("point %d is there %d times", n, seen[strconv.Itoa(n)])
		}
	}
	told := 0
	for _, s := range doc.Ledger.Skipped {
		if s.Reason != "restored" {
			t.Errorf("skipped for %q", s.Reason)
		}
		told += s.Last - s.First + 1
	}
	if n := c.Metric(t, "kymogram_ingest_writers_ahead_total"); n == 0 {
		t.Error("the server does not count the writer that knows more than it")
	}
	const definitions = 4 // each spool segment names its series in a record of its own
	if told < missing || told > missing+definitions || missing == 0 || len(seen) < atLeast {
		t.Errorf("%d of %d points are missing, the ledger tells of %d records: %+v", missing, logged, told, doc.Ledger.Skipped)
	}
	t.Logf("%d points logged, %d are gone with the lost disk, in %d ranges of the ledger", logged, missing, len(doc.Ledger.Skipped))
}

func end(t *testing.T, stop string) {
	t.Helper()
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
