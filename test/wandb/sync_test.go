//go:build e2e

package wandb

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A run that was logged offline comes by `wandb sync`, as often as that is called.
func TestSync(t *testing.T) {
	t.Parallel()
	quick(t, newest, func(t *testing.T, r *room) {
		for _, name := range []string{"whole", "killed"} {
			if testing.Short() && name == "killed" {
				continue
			}
			folder := r.fresh()
			r.startIn(folder, nil, "offline.py", name).wait()
			var rows int
			for again := range 2 {
				r.sync(folder)
				status := "finished"
				if name == "killed" && r.version >= "0.20" {
					status = "failed" // older ones say that it ended well
				}
				d := r.ends(name, status)
				r.whole(d)
				got := r.curve(d, "x", nil)
				for step, values := range got {
					if !slices.Equal(values, []string{step}) {
						r.Errorf("%s: x at step %s is %v", name, step, values)
					}
				}
				switch {
				case name == "whole" && len(got) != 300, name == "killed" && len(got) < 1000, again > 0 && len(got) != rows:
					r.Errorf("%s, sync %d: %d rows", name, again+1, len(got))
				}
				rows = len(got)
				if all := r.client.Points(t, d.ID, "x", scale, nil); len(all["value"]) != rows {
					r.Errorf("%s, sync %d: %d rows in all attempts, want %d", name, again+1, len(all["value"]), rows)
				}
				if name == "whole" {
					if d.DisplayName != "offline whole" || !slices.Equal(d.Tags, []string{"t"}) {
						r.Errorf("the run is %q with %v", d.DisplayName, d.Tags)
					}
					r.attributes(d, map[string]string{"config/a": "1"})
					if !strings.Contains(strings.Join(r.console(d), "\n"), "a line") {
						r.Error("the console lacks its line")
					}
				}
			}
		}
	})
}

// sync calls `wandb sync` for every run of a folder.
func (r *room) sync(folder string) {
	r.Helper()
	runs, err := filepath.Glob(filepath.Join(folder, "wandb", "offline-run-*"))
	if err != nil || len(runs) != 1 {
		r.Fatalf("the offline runs are %v: %v", runs, err)
	}
	args := []string{filepath.Join(r.sdk.folder, "bin", "wandb"), "sync", "--include-synced", runs[0]}
	if r.version >= "0.20" {
		args = slices.Delete(args, 2, 3) // a folder that is named is sent again
	}
	out, err := r.python3(folder, nil, args...).CombinedOutput()
	if err != nil {
		r.Errorf("wandb sync: %v\n%s", err, last(string(out)))
	}
	r.Cleanup(func() {
		if r.Failed() {
			r.Logf("wandb sync said:\n%s", last(string(out)))
		}
	})
}
