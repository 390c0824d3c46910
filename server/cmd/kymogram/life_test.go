package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kymogram/kymogram"
)

// lifeVariable is how many points a training process logs before it says so and
// waits for its end.
const lifeVariable = "KYMOGRAM_TEST_LIFE"

// trainingLife is a training process; TestMain makes it a program of this binary.
func trainingLife() {
	if err := logALife(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func logALife() error {
	points, err := strconv.Atoi(os.Getenv(lifeVariable))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run, err := kymogram.Init(ctx, kymogram.Options{RunName: "life", Log: slog.New(slog.DiscardHandler), NoEnvironment: true})
	if err != nil {
		return err
	}
	from, _ := strconv.Atoi(os.Getenv("LIFE_FROM"))
	for i := range points {
		if err := run.Log("loss", float64(from+i), kymogram.Step(int64(from+i))); err != nil {
			return err
		}
	}
	fmt.Println("logged")
	<-ctx.Done() // SIGTERM is a clean end, SIGKILL is none
	var left *kymogram.UndeliveredError
	if err := run.Close(context.Background()); err != nil && !errors.As(err, &left) {
		return err
	}
	return nil
}

// life runs a training process until it has logged, then ends it with sig.
func (k *kitchen) life(from, points int, server string, sig syscall.Signal) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), "training-life")
	cmd.Env = []string{
		lifeVariable + "=" + strconv.Itoa(points), "LIFE_FROM=" + strconv.Itoa(from), "HOME=" + k.env["HOME"], "PATH=" + os.Getenv("PATH"),
		"XDG_CONFIG_HOME=" + k.env["XDG_CONFIG_HOME"], "KYMOGRAM_SPOOL_DIR=" + k.spool(), "KYMOGRAM_SERVER=" + server, "KYMOGRAM_ORCHESTRATION_ID=job",
		"KYMOGRAM_API_KEY=" + k.env["KYMOGRAM_API_KEY"],
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	var said strings.Builder
	for b := make([]byte, 256); !strings.Contains(said.String(), "logged"); {
		n, err := out.Read(b)
		said.Write(b[:n])
		if err != nil {
			k.t.Fatalf("the process ended early: %s", said.String())
		}
	}
	if err := cmd.Process.Signal(sig); err != nil {
		k.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
}

// A process that is killed loses nothing, and the next life of its job is
// another attempt whose points win where both have them.
func TestAKilledLifeIsFollowedByAnother(t *testing.T) {
	for _, c := range []struct{ name, server string }{{"server away", silentServer}, {"server there", ""}} {
		t.Run(c.name, func(t *testing.T) {
			k := serveKitchen(t)
			k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
			server := "http://" + k.address
			first := c.server
			if first == "" {
				first = server
			}
			k.life(0, 1000, first, syscall.SIGKILL)
			k.life(600, 900, first, syscall.SIGTERM)
			if first != server {
				k.ok("sync", "--server", server)
			} else {
				k.ok("sync")
			}
			var run struct {
				Attempts []struct{ Number int } `json:"attempts"`
				Status   string                 `json:"status"`
				Ledger   struct{ Logged, Stored, Superseded, Dropped, Refused uint64 }
			}
			if err := json.Unmarshal([]byte(k.ok("runs", "show", "default/default/life", "--json")), &run); err != nil {
				t.Fatal(err)
			}
			// Superseded points of an earlier attempt stay stored.
			if len(run.Attempts) != 2 || run.Ledger.Logged != 1900 || run.Ledger.Stored != 1900 || run.Ledger.Dropped+run.Ledger.Refused != 0 || run.Status != "finished" {
				t.Errorf("%+v", run)
			}
			counts := map[string]int{}
			for line := range strings.Lines(k.ok("export", "default/default/life", "--format", "jsonl")) {
				var p struct {
					Step    int
					Attempt int
				}
				if err := json.Unmarshal([]byte(line), &p); err != nil {
					t.Fatal(err)
				}
				if want := map[bool]int{true: 1, false: 2}[p.Step < 600]; p.Attempt != want {
					t.Fatalf("step %d is of attempt %d, want %d", p.Step, p.Attempt, want)
				}
				counts["points"]++
			}
			if counts["points"] != 1500 {
				t.Errorf("the curve has %d points, want 1500", counts["points"])
			}
		})
	}
}
