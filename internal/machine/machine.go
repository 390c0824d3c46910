// Package machine is what a run records of the machine that it began on: host, Go,
// git commit, the job's variables and the graphics cards.
//
// Nothing goes in but the process's surroundings; nested maps come out, which
// become the run's attributes. What cannot be found is left out: it never ends a
// run. A variable that looks like a secret is replaced. What takes longer than
// Init may wait ([IsDirty] of a large repository, [Cards]) has a context.
//
// The machine's metrics over time are internal/collect.
package machine

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gitLimit bounds what git may take of Init.
const gitLimit = 150 * time.Millisecond

const maxVariable = 1024

// The variables that a run is told of, and what makes one look like a secret.
const (
	jobPrefixes  = "SLURM_ TORCHELASTIC_"
	jobNames     = "CUDA_VISIBLE_DEVICES"
	secretNames  = "KEY TOKEN SECRET PASSW PWD CREDENTIAL AUTH COOKIE PRIVATE SIGNATURE JWT SESSION"
	secretStarts = "sk- sk_ pk_ rk_ ghp_ gho_ ghu_ ghs_ github_pat_ glpat- hf_ xox AKIA ASIA AIza eyJ ya29. -----BEGIN npm_ pypi- kym_"
	replaced     = "(replaced: it looks like a secret)"
)

// Describe is what is found out at once: host, Go, commit and the job's variables.
func Describe() map[string]any {
	host, _ := os.Hostname()
	found := map[string]any{
		"host": map[string]any{"name": host, "platform": runtime.GOOS, "machine": runtime.GOARCH, "cpus": runtime.NumCPU()},
		"go":   map[string]any{"version": runtime.Version(), "program": os.Args[0]},
	}
	if job := jobVariables(os.Environ()); len(job) > 0 {
		found["env"] = job
	}
	if git := revision(); len(git) > 0 {
		found["git"] = git
	}
	return found
}

// jobVariables are those on the list; what looks like a secret is replaced.
func jobVariables(environ []string) map[string]any {
	out := map[string]any{}
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		listed := name == jobNames || slices.ContainsFunc(strings.Fields(jobPrefixes), func(p string) bool { return strings.HasPrefix(name, p) })
		if !listed {
			continue
		}
		if out[name] = value[:min(len(value), maxVariable)]; looksSecret(name, value) {
			out[name] = replaced
		}
	}
	return out
}

func looksSecret(name, value string) bool {
	upper := strings.ToUpper(name)
	if slices.ContainsFunc(strings.Fields(secretNames), func(w string) bool { return strings.Contains(upper, w) }) {
		return true
	}
	if slices.ContainsFunc(strings.Fields(secretStarts), func(s string) bool { return strings.HasPrefix(value, s) }) {
		return true
	}
	_, rest, ok := strings.Cut(value, "://")
	place, _, _ := strings.Cut(rest, "/")
	return ok && strings.Contains(place, "@")
}

// revision is the commit that the program was built from, else that of the
// folder it runs in.
func revision() map[string]any {
	out := map[string]any{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				out["commit_sha"] = s.Value
			case "vcs.modified":
				out["dirty"] = s.Value == "true"
			}
		}
	}
	if out["commit_sha"] != nil {
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), gitLimit)
	defer cancel()
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return nil
	}
	out["commit_sha"] = commit
	if dirty, err := IsDirty(ctx); err == nil {
		out["dirty"] = dirty
	}
	return out
}

// IsDirty reports whether files differ from the commit. Of a large repository it
// takes longer than Init may.
func IsDirty(ctx context.Context) (bool, error) {
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules")
	return changes != "", err
}

func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	cmd.WaitDelay = gitLimit
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// Cards are the graphics cards, by number; empty where nvidia-smi tells of none.
func Cards(ctx context.Context) map[string]any {
	path, err := exec.LookPath("nvidia-smi")
	if err != nil {
		return nil
	}
	text, err := exec.CommandContext(ctx, path, "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil
	}
	return parseCards(string(text))
}

func parseCards(text string) map[string]any {
	out := map[string]any{}
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ", ")
		if len(parts) != 4 {
			continue
		}
		if _, err := strconv.Atoi(parts[0]); err != nil {
			continue
		}
		card := map[string]any{"name": parts[1], "driver": parts[3]}
		if mib, err := strconv.ParseInt(parts[2], 10, 64); err == nil {
			card["memory_mib"] = mib
		}
		out[parts[0]] = card
	}
	if len(out) > 0 {
		out["count"] = len(out)
	}
	return out
}
