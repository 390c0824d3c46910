// Package job is the job that this process is a part of: what a launcher (torchrun,
// Slurm, Ray, MPI, Kubernetes) says in environment variables, and what Kymogram says
// to child processes in the same way.
//
// The environment goes in as a function, so that tests have their own; ids, ranks
// and names come out. Processes with one job id share one run. Only [Publish]
// writes to the process's environment.
package job

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// The variables by which a process tells its children of its run.
const (
	EnvID         = "KYMOGRAM_ORCHESTRATION_ID"
	EnvAttempt    = "KYMOGRAM_ATTEMPT"
	EnvAttemptPID = "KYMOGRAM_ATTEMPT_PID"
	// EnvMetranaID: the children may use Metrana's client.
	EnvMetranaID = "METRANA_ORCHESTRATION_ID"
)

// Env is os.Getenv, or a test's own.
type Env func(string) string

// ID is the job's id, "" where no launcher gave one.
func (env Env) ID() string {
	for _, name := range []string{EnvID, EnvMetranaID, "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "RAY_JOB_ID"} {
		if id := strings.TrimSpace(env(name)); id != "" {
			return id
		}
	}
	return ""
}

// Rank is this process's number in the job, nil where nobody gave it one.
func (env Env) Rank() *int64 {
	return env.number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
}

// Restarts is how often the launcher started the job again.
func (env Env) Restarts() *int64 {
	return env.number("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
}

// number is the first variable that holds a natural number.
func (env Env) number(names ...string) *int64 {
	for _, name := range names {
		if n, err := strconv.ParseInt(env(name), 10, 64); err == nil && n >= 0 {
			return &n
		}
	}
	return nil
}

// Again reports whether this process has opened a run before.
func (env Env) Again() bool { return env(EnvAttemptPID) == strconv.Itoa(os.Getpid()) }

// Parent is the writer that handed us its attempt: another process of the job id.
func (env Env) Parent(id string) *model.WriterID {
	writer, err := model.ParseWriterID(env(EnvAttempt))
	if err != nil || env.Again() || env(EnvID) != id {
		return nil
	}
	return &writer
}

// Publish tells children of this process of the run.
func Publish(id string, writer model.WriterID) error {
	values := map[string]string{
		EnvID: id, EnvMetranaID: id,
		EnvAttempt: writer.String(), EnvAttemptPID: strconv.Itoa(os.Getpid()),
	}
	for name, value := range values {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("publish the attempt: %w", err)
		}
	}
	return nil
}

// EndsMachine reports whether nothing on this machine goes on after the program: a
// batch job, or a container that we are the main process of, or its child. A
// container that people work in goes on.
func (env Env) EndsMachine() bool {
	for _, name := range []string{"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "AWS_BATCH_JOB_ID", "KUBERNETES_SERVICE_HOST"} {
		if env(name) != "" {
			return true
		}
	}
	if os.Getpid() == 1 {
		return true
	}
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil && os.Getppid() == 1 {
			return true
		}
	}
	return false
}
