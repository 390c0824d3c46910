//go:build e2e

package wandb

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// train is what a reader of docs/wandb.md has at hand.
const train = `
import wandb

with wandb.init(entity="lab", project="page") as run:
    for step in range(10):
        run.log({"loss": 1 / (step + 1)})
`

// TestThePage runs the shell of docs/wandb.md twice: its variables are all that a program needs.
func TestThePage(t *testing.T) {
	quick(t, newest, func(t *testing.T, r *room) {
		page, err := os.ReadFile("../../docs/wandb.md")
		if err != nil {
			t.Fatal(err)
		}
		block := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindSubmatch(page)
		if block == nil {
			t.Fatal("the page has no shell")
		}
		shell := strings.NewReplacer("http://127.0.0.1:7070", r.server.Address, "=KEY ", "="+r.key+" ").Replace(string(block[1]))
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Fatal(err)
		}
		for lives := range 2 {
			folder := r.fresh()
			if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte(train), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := r.python3(folder, []string{"PATH=" + filepath.Dir(r.python()) + string(os.PathListSeparator) + os.Getenv("PATH")})
			cmd.Path, cmd.Args = bash, []string{"bash", "-euc", shell}
			cmd.Env = slices.DeleteFunc(cmd.Env, func(one string) bool {
				return strings.HasPrefix(one, "WANDB_BASE_URL=") || strings.HasPrefix(one, "WANDB_API_KEY=")
			})
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			runs := r.client.Runs(t, "lab/page")
			if len(runs) != lives+1 {
				t.Fatalf("%d runs after %d programs", len(runs), lives+1)
			}
			for _, run := range runs {
				if points := r.client.Points(t, run.ID, "loss", "", nil); run.Status != "finished" || len(points["value"]) != 10 {
					t.Errorf("a run is %s and has %d points", run.Status, len(points["value"]))
				}
			}
		}
	})
}
