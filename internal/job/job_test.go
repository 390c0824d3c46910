package job

import (
	"os"
	"strconv"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

func env(values map[string]string) Env { return func(name string) string { return values[name] } }

// The names are those that the Python package's readable_name gives.
func TestNamesArePythons(t *testing.T) {
	for id, want := range map[string]string{"job-1": "merry-hawk-7eae30", "7": "swift-dune-c1d786", "é": "nimble-coral-dcda60"} {
		if got := Name(id); got != want {
			t.Errorf("the job %q is named %s, want %s", id, got, want)
		}
	}
}

func TestTheJobOfLaunchers(t *testing.T) {
	e := env(map[string]string{"KYMOGRAM_ORCHESTRATION_ID": " ", "SLURM_JOB_ID": "77\n", "RAY_JOB_ID": "8", "RANK": "-1", "SLURM_PROCID": "3", "SLURM_RESTART_COUNT": "x"})
	if rank := e.Rank(); e.ID() != "77" || rank == nil || *rank != 3 || e.Restarts() != nil {
		t.Errorf("id %q, rank %v, restarts %v", e.ID(), rank, e.Restarts())
	}
	if id := env(nil).ID(); id != "" {
		t.Errorf("no launcher, and the id %q", id)
	}
}

// A child has its parent's attempt; the process itself, and another job, have none.
func TestTheAttemptOfParents(t *testing.T) {
	writer := model.WriterID{1, 2, 3}
	for name, tt := range map[string]struct {
		job, pid string
		is       bool
	}{
		"child": {"j", "1", true}, "another job": {"k", "1", false}, "itself": {"j", strconv.Itoa(os.Getpid()), false},
	} {
		e := env(map[string]string{EnvAttempt: writer.String(), EnvID: "j", EnvAttemptPID: tt.pid})
		if got := e.Parent(tt.job); (got != nil) != tt.is || got != nil && *got != writer {
			t.Errorf("%s: %v", name, got)
		}
	}
}
