package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kymogram/kymogram/internal/model"
)

// mlflowRun is what both stores know of a run.
type mlflowRun struct {
	id, name, status   string
	experiment         string
	startMs, endMs     int64
	lifecycle, userTag string
	folder             string // of a file store
	problem            error  // why it cannot be read
}

const mlflowDeleted = "deleted"

// findMLflow finds the runs of a file store (the folder mlruns, or an experiment
// in it) or of an SQLite store. Deleted runs are named and left out.
func findMLflow(ctx context.Context, path string, _ Options) ([]Found, error) {
	info, err := regular(path)
	if err != nil {
		return nil, fmt.Errorf("look for an MLflow store: %w", err)
	}
	if !info.IsDir() {
		return findMLflowSQLite(ctx, path)
	}
	return findMLflowFiles(path)
}

// named gives each run its name; of several with one name each gets the start of
// its id behind it, so that no two share a run.
func named(runs []mlflowRun, read func(mlflowRun) func(context.Context) (*Run, error)) []Found {
	count := map[string]int{}
	for _, r := range runs {
		if r.lifecycle != mlflowDeleted {
			count[CleanRunName(r.name)]++
		}
	}
	found := make([]Found, 0, len(runs))
	for _, r := range runs {
		name := CleanRunName(r.name)
		if r.name == "" {
			name = CleanRunName(r.id)
		} else if count[name] > 1 {
			name = model.CutBytes(name, model.MaxNameBytes-9) + "-" + r.id[:min(8, len(r.id))]
		}
		one := Found{Key: r.id, Name: name, ByKey: true, Short: r.id[:min(8, len(r.id))], Project: r.experiment, Read: read(r)}
		if r.problem != nil {
			one.Read = func(context.Context) (*Run, error) { return nil, r.problem }
		}
		if r.lifecycle == mlflowDeleted {
			one.Left = "it was deleted in MLflow"
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Key, b.Key) })
	return found
}

// head fills in what a run's own row says.
func (b *builder) head(r mlflowRun) {
	b.run.Experiment = CleanRunName(r.experiment)
	b.run.DisplayName = CleanRunName(r.name)
	b.run.StartedNs, b.run.EndedNs = milliseconds(r.startMs), milliseconds(r.endMs)
	b.run.Failed = r.status != "FINISHED"
	b.attribute("mlflow/status", model.StringValue(r.status))
	if r.userTag != "" {
		b.attribute("mlflow/user", model.StringValue(r.userTag))
	}
}

// milliseconds is Unix milliseconds in nanoseconds; what is out of range is 0.
func milliseconds(ms int64) int64 {
	if ms > maxStep/1_000_000 || ms < 0 {
		return 0
	}
	return ms * 1e6
}

// mlflowTag places one tag: the note is the description, git's commit an
// attribute, a person's own a tag, and all others lie below mlflow/.
func (b *builder) mlflowTag(name, value string) {
	switch system, ok := strings.CutPrefix(name, "mlflow."); {
	case name == "mlflow.note.content":
		b.run.Description = model.CutBytes(strings.ToValidUTF8(value, "\ufffd"), maxText)
	case name == "mlflow.source.git.commit":
		b.attribute("git/commit", model.StringValue(value))
	case name == "mlflow.runName":
	case ok:
		b.attribute("mlflow/"+system, model.StringValue(value))
	default:
		b.tag(name + "=" + value)
		b.attribute("tags/"+strings.Trim(name, "/"), model.StringValue(value))
	}
}

// mlflowMeta is meta.yaml of an experiment or a run.
type mlflowMeta struct {
	Name      string `yaml:"name"`
	RunID     string `yaml:"run_id"`
	RunUUID   string `yaml:"run_uuid"` // before MLflow 1.0
	RunName   string `yaml:"run_name"`
	UserID    string `yaml:"user_id"`
	Status    any    `yaml:"status"` // a number; of a version of a model a word
	Start     *int64 `yaml:"start_time"`
	End       *int64 `yaml:"end_time"`
	Lifecycle string `yaml:"lifecycle_stage"`
}

// maxNests bounds what may open lists and structures in a meta.yaml, where MLflow has next
// to none: the parser's memory grows with the square of their depth.
const maxNests = 1_000

func readMeta(folder string) (m mlflowMeta, err error) {
	data, err := readSmall(filepath.Join(folder, "meta.yaml"))
	if err != nil {
		return m, err
	}
	if nests := bytes.Count(data, []byte("[")) + bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("- -")) + bytes.Count(data, []byte("? ?")); nests > maxNests {
		return m, model.Errorf(model.CodeInvalid, "read %s: it nests too deep", filepath.Join(folder, "meta.yaml"))
	}
	if err := yaml.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", filepath.Join(folder, "meta.yaml"), err)
	}
	return m, nil
}

// findMLflowFiles walks to the folders of runs: those whose meta.yaml tells of the
// life of one. Experiments, models and their versions have such files too.
func findMLflowFiles(root string) ([]Found, error) {
	var runs []mlflowRun
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		meta, err := readMeta(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			key, nameless := keyOf(root, path)
			runs = append(runs, mlflowRun{id: key, problem: err})
			return nameless
		}
		id := cmp.Or(meta.RunID, meta.RunUUID)
		if id == "" || meta.Lifecycle == "" && id != filepath.Base(path) {
			return nil
		}
		if strings.Contains(filepath.ToSlash(path), "/.trash/") {
			meta.Lifecycle = mlflowDeleted // with its experiment
		}
		runs = append(runs, meta.run(id, path))
		return filepath.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("look for MLflow runs: %w", err)
	}
	return named(runs, func(r mlflowRun) func(context.Context) (*Run, error) {
		return func(context.Context) (*Run, error) { return readMLflowFolder(r) }
	}), nil
}

func (m mlflowMeta) run(id, folder string) mlflowRun {
	r := mlflowRun{id: id, name: m.RunName, userTag: m.UserID, lifecycle: m.Lifecycle, folder: folder}
	words := []string{"", "RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED"}
	if status, ok := m.Status.(uint64); ok && status < uint64(len(words)) {
		r.status = words[status]
	}
	if m.Start != nil {
		r.startMs = *m.Start
	}
	if m.End != nil {
		r.endMs = *m.End
	}
	if experiment, err := readMeta(filepath.Dir(folder)); err == nil {
		r.experiment = experiment.Name
	}
	if name, err := readSmall(filepath.Join(folder, "tags", "mlflow.runName")); err == nil && r.name == "" {
		r.name = string(name)
	}
	return r
}

func readMLflowFolder(r mlflowRun) (*Run, error) {
	b := newBuilder()
	b.head(r)
	parts := []struct {
		folder string
		read   func(name, path string) error
	}{
		{"params", b.small(func(name, value string) { b.attribute("config/"+name, model.StringValue(value)) })},
		{"tags", b.small(b.mlflowTag)},
		{"metrics", b.metricFile},
		{"artifacts", func(string, string) error { b.skip("artifacts"); return nil }},
	}
	for _, part := range parts {
		if err := eachFile(filepath.Join(r.folder, part.folder), part.read); err != nil {
			return nil, err
		}
	}
	run := b.done()
	run.spanPoints()
	return run, nil
}

// eachFile reads every file below a folder; a missing one is empty.
func eachFile(folder string, read func(name, path string) error) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == folder {
			return nil
		}
		if err != nil || !isFile(path, entry) {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return read(filepath.ToSlash(name), path)
	})
}

// maxSmall bounds a file of one value; a longer one is no value of MLflow's.
const maxSmall = 1 << 20

// readSmall reads the begin of a file that holds little.
func readSmall(path string) ([]byte, error) {
	if _, err := regular(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSmall))
}

// small reads a file that holds one value.
func (b *builder) small(use func(name, value string)) func(name, path string) error {
	return func(name, path string) error {
		data, err := readSmall(path)
		if err == nil {
			use(name, string(data))
		}
		return err
	}
}

// metricFile reads lines of time in milliseconds, value and step (0 before
// MLflow 1.0).
func (b *builder) metricFile(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Split(wholeLines)
	for offset := int64(0); lines.Scan(); {
		line, ended := strings.CutSuffix(lines.Text(), "\n")
		if !ended {
			b.damage("metrics/"+name, offset, "the last line has no end: the program was killed, or still writes")
		} else if time, value, step, ok := metricLine(line); ok {
			b.float(name, step, milliseconds(time), value)
		} else if strings.TrimSpace(line) != "" {
			b.damage("metrics/"+name, offset, "a line is not TIME VALUE STEP")
		}
		offset += int64(len(line)) + 1
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		b.damage("metrics/"+name, -1, "a line is too long; the rest of the file is not read")
		return nil
	}
	return lines.Err()
}

// wholeLines splits at ends of lines, and keeps them: MLflow ends each line that it writes.
func wholeLines(data []byte, last bool) (advance int, line []byte, err error) {
	if n := bytes.IndexByte(data, '\n') + 1; n > 0 || last && len(data) > 0 {
		n = cmp.Or(n, len(data))
		return n, data[:n], nil
	}
	return 0, nil, nil
}

func metricLine(line string) (timeMs int64, value float64, step int64, ok bool) {
	parts := strings.Fields(line)
	if len(parts) != 2 && len(parts) != 3 {
		return 0, 0, 0, false
	}
	timeMs, errTime := strconv.ParseInt(parts[0], 10, 64)
	value, errValue := strconv.ParseFloat(parts[1], 64)
	if errors.Is(errValue, strconv.ErrRange) && math.IsInf(value, 0) {
		errValue = nil // larger than float64: an infinity, as Python reads it
	}
	var errStep error
	if len(parts) == 3 {
		step, errStep = strconv.ParseInt(parts[2], 10, 64)
	}
	return timeMs, value, step, errTime == nil && errValue == nil && errStep == nil
}
