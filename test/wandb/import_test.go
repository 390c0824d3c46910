//go:build e2e

package wandb

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/test/rig"
)

// A project that the SDK logged into one server is copied to another. The SDK reads both:
// it must see no difference.
func TestImport(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		r.run("log.py")
		r.run("media.py")
		room := rig.New(t)
		server := room.Serve(t)
		imports := func() (states string) {
			cmd := room.Command(t, room.Binary(), "import", "wandb", "--project", place, "--files", "--json")
			cmd.Env = append(cmd.Env, "WANDB_BASE_URL="+r.server.Address, "WANDB_API_KEY="+r.key, "KYMOGRAM_SERVER="+server.Address, "KYMOGRAM_API_KEY="+server.Key(t))
			out, err := cmd.Output()
			var report struct {
				Runs []struct{ State, Error string }
			}
			if bad := json.Unmarshal(out, &report); bad != nil || err != nil {
				t.Fatalf("%v %v\n%s", err, bad, out)
			}
			for _, run := range report.Runs {
				states += run.State + run.Error + " "
			}
			return strings.TrimSpace(states)
		}
		if states := imports(); strings.Trim(strings.ReplaceAll(states, "imported", ""), " ") != "" || states == "" {
			t.Errorf("the import: %s", states)
		}
		reads := func(address, key string) said {
			p := r.startIn(r.fresh(), []string{"WANDB_BASE_URL=" + address, "WANDB_API_KEY=" + key}, "whole.py")
			words, code := p.wait()
			if code != 0 {
				t.Fatalf("the SDK ended with %d", code)
			}
			return words
		}
		from, to := reads(r.server.Address, r.key), reads(server.Address, server.Key(t))
		if len(from) != len(to) || len(from) < 2 {
			t.Errorf("%d runs became %d", len(from), len(to))
		}
		for id := range from {
			want, _ := from[id].(map[string]any)
			have, _ := to[id].(map[string]any)
			for field := range want {
				if !reflect.DeepEqual(want[field], have[field]) {
					a, _ := json.Marshal(want[field])
					b, _ := json.Marshal(have[field])
					t.Errorf("%s: %s differs:\n%.500s\n%.500s", id, field, a, b)
				}
			}
		}
		if states := imports(); strings.Trim(strings.ReplaceAll(states, "unchanged", ""), " ") != "" {
			t.Errorf("the second import: %s", states)
		}
	})
}
