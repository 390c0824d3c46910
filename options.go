package kymogram

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/uplink"
)

// Version is the version of this package.
const Version = "0.1.0"

const (
	defaultServer       = "http://127.0.0.1:7070"
	defaultPlace        = "default"
	defaultCloseTimeout = 15 * time.Second
)

// Error is an error with a machine-readable code and a hint what to do.
type Error = model.Error

// ResumeStrategy says what Init does when the run's name is taken.
type ResumeStrategy = model.ResumeStrategy

// The strategies.
const (
	// ResumeNever joins a run of the same orchestration id only.
	ResumeNever = model.ResumeNever
	// ResumeAllow joins whatever run has the name.
	ResumeAllow = model.ResumeAllow
)

// Options are what Init takes. The zero value logs to the server on this machine.
type Options struct {
	// APIKey: else KYMOGRAM_API_KEY, else the user's credentials.json.
	APIKey string
	// Server: else KYMOGRAM_SERVER, else http://127.0.0.1:7070.
	Server string
	// Workspace and Project: else KYMOGRAM_WORKSPACE, KYMOGRAM_PROJECT, else "default".
	Workspace, Project string
	// RunName is unique in its project; empty makes a readable one, the same for
	// all processes of a job.
	RunName     string
	DisplayName string
	Experiment  string

	ResumeStrategy ResumeStrategy // ResumeNever when empty
	// OrchestrationID names the job, whose processes share the run: else
	// KYMOGRAM_ORCHESTRATION_ID, METRANA_ORCHESTRATION_ID, TORCHELASTIC_RUN_ID,
	// SLURM_JOB_ID, RAY_JOB_ID, else a random one.
	OrchestrationID string
	// ResumeFromStep S hides what earlier attempts logged at step S and later.
	ResumeFromStep *int64
	ForkFromRun    string
	ForkAtStep     *int64
	// LoggerID pins writers: of two with one id in one attempt the later wins at
	// equal steps.
	LoggerID *uint64
	Hotkey   string

	// Tags, Description and Config describe a run that Init creates. Of a large
	// Config the first 1,000 values (64 KiB) travel with the opening, the others
	// through the spool, under the same rules.
	Tags        []string
	Description string
	Config      map[string]any

	// Backpressure says what a log call does when the server has not acked
	// QueueCapacity points: else KYMOGRAM_BACKPRESSURE_STRATEGY, else
	// BackpressureSpool, under which the disk is the queue and nothing waits.
	Backpressure   Backpressure
	QueueCapacity  int           // 10,000 when 0, else KYMOGRAM_EVENT_QUEUE_MAX_SIZE
	EnqueueTimeout time.Duration // how long a full queue is waited for; 0.1 s when 0
	// ErrorStrategy: else KYMOGRAM_ERROR_MODES, else ErrorsWarn.
	ErrorStrategy ErrorStrategy
	// OnError, when set, hears every error of the delivery, from a goroutine of the run.
	OnError func(error)

	// How the uplink sends; zero: its own measures.
	MaxPendingRequests int           // batches that wait for their acks
	BatchMaxAge        time.Duration // the longest that a point waits for company
	MaxMsgSize         int           // bytes of a batch
	Compression        string        // "none" or "zstd"
	// MaxSendRetries is how many tries in a row may fail before it is told, 60
	// when 0, -1 for any number. With another strategy than BackpressureSpool the
	// oldest batch is dropped and counted then.
	MaxSendRetries                               int
	SendRetryInitialBackoff, SendRetryMaxBackoff time.Duration

	// NoEnvironment leaves out what Init tells of the machine: host, Go, git
	// commit, cards and the job's variables.
	NoEnvironment bool
	// NoSystemMetrics switches the machine's metrics off, which are on under Linux
	// (KYMOGRAM_CAPTURE_SYSTEM_METRICS); they are logged every
	// SystemMetricsInterval: else KYMOGRAM_SYSTEM_METRICS_INTERVAL_SECS, else 30 s.
	NoSystemMetrics       bool
	SystemMetricsInterval time.Duration

	// Rendering says how [Run.LogRendering] makes videos.
	Rendering RenderingOptions

	// SpoolDir: else as docs/format/spool.md says.
	SpoolDir string
	// MaxSpoolBytes caps the spool, 256 KiB at least; 8 GiB when 0, or a tenth of
	// the free disk when that is less.
	MaxSpoolBytes int64
	// CloseTimeout is how long Close waits while the server answers; 15 s when 0.
	CloseTimeout time.Duration
	// NoUplink leaves the delivery to an agent or to `kymogram sync`.
	NoUplink bool
	// Log hears what is worth a warning; slog.Default() when nil.
	Log *slog.Logger

	env func(string) string // os.Getenv; tests have their own
	odd *sync.Once          // a path that only Metrana's document forbids was told of
}

// The variables by which a process tells its children of its run.
const (
	envOrchestration = "KYMOGRAM_ORCHESTRATION_ID"
	envAttempt       = "KYMOGRAM_ATTEMPT"
	envAttemptPID    = "KYMOGRAM_ATTEMPT_PID"
	// The children may use Metrana's client.
	envMetranaOrchestration = "METRANA_ORCHESTRATION_ID"
)

// settle fills what is left open from the environment.
func (o *Options) settle() error {
	if o.env == nil {
		o.env = os.Getenv
	}
	if o.SpoolDir != "" {
		env, dir := o.env, o.SpoolDir
		o.env = func(name string) string {
			if name == "KYMOGRAM_SPOOL_DIR" {
				return dir
			}
			return env(name)
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.odd = new(sync.Once)
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	var err error
	o.Server, err = uplink.ParseServer(o.first(o.Server, "KYMOGRAM_SERVER", "METRANA_INGESTION_URL", defaultServer))
	if err != nil {
		return err
	}
	o.APIKey = o.first(o.APIKey, "KYMOGRAM_API_KEY", "METRANA_API_KEY", "")
	o.Workspace = o.first(o.Workspace, "KYMOGRAM_WORKSPACE", "METRANA_WORKSPACE", defaultPlace)
	o.Project = o.first(o.Project, "KYMOGRAM_PROJECT", "METRANA_PROJECT", defaultPlace)
	if err := o.settleDelivery(); err != nil {
		return err
	}
	if err := o.settleJob(); err != nil {
		return err
	}
	return o.check()
}

// first is the given value, else that of one of two variables, else fallback.
func (o *Options) first(given, variable, second, fallback string) string {
	for _, v := range []string{given, o.env(variable), o.env(second)} {
		if v != "" {
			return v
		}
	}
	return fallback
}

func (o *Options) settleJob() error {
	o.OrchestrationID = strings.TrimSpace(o.OrchestrationID)
	for _, name := range []string{envOrchestration, envMetranaOrchestration, "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "RAY_JOB_ID"} {
		if o.OrchestrationID == "" {
			o.OrchestrationID = strings.TrimSpace(o.env(name))
		}
	}
	if o.OrchestrationID == "" {
		o.OrchestrationID = randomHex(16)
	}
	if o.RunName == "" {
		seed := o.OrchestrationID
		if o.again() {
			seed = randomHex(16)
		}
		o.RunName = readableName(seed)
	}
	return nil
}

// again reports whether this process has opened a run before.
func (o *Options) again() bool { return o.env(envAttemptPID) == strconv.Itoa(os.Getpid()) }

func (o *Options) check() error {
	checks := []error{
		checkPlace("workspace", o.Workspace), checkPlace("project", o.Project),
		checkRunName("run name", o.RunName), checkRunName("orchestration id", o.OrchestrationID),
		checkTags(o.Tags), checkKey(o.APIKey), o.checkDelivery(), o.Rendering.settle(o),
	}
	for what, name := range map[string]string{"display name": o.DisplayName, "experiment": o.Experiment, "run to fork from": o.ForkFromRun} {
		if name != "" {
			checks = append(checks, checkRunName(what, name))
		}
	}
	if o.ResumeStrategy != ResumeNever && o.ResumeStrategy != ResumeAllow {
		checks = append(checks, invalidf("resume strategy %q is neither %q nor %q", o.ResumeStrategy, ResumeNever, ResumeAllow))
	}
	if o.ResumeFromStep != nil {
		checks = append(checks, checkStep("resume step", *o.ResumeFromStep))
	}
	if o.ForkAtStep != nil {
		checks = append(checks, checkStep("fork step", *o.ForkAtStep))
		if o.ForkFromRun == "" {
			checks = append(checks, invalidf("a fork step needs the run to fork from"))
		}
	}
	return errors.Join(checks...)
}

// request is what the server and the spool are told of this writer.
func (o *Options) request(now time.Time) (model.OpenRequest, error) {
	initial, err := o.initial(now)
	if err != nil {
		return model.OpenRequest{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	req := model.OpenRequest{
		Workspace: o.Workspace, Project: o.Project, RunName: o.RunName, DisplayName: o.DisplayName, Experiment: o.Experiment,
		LocalRun: newRunID(now), OrchestrationID: o.OrchestrationID, ResumeStrategy: o.ResumeStrategy,
		RestartCount:  o.number("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"),
		Rank:          o.number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
		ParentAttempt: o.parent(), ResumeFromStep: o.ResumeFromStep, ForkFromRun: o.ForkFromRun, ForkAtStep: o.ForkAtStep, LoggerID: o.LoggerID,
		Host: host, PID: int64(os.Getpid()), Hotkey: o.Hotkey, OpenedNs: now.UnixNano(), SDK: "go/" + Version, Initial: initial,
	}
	fillRandom(req.Writer[:])
	return req, nil
}

// parent is the writer that handed us its attempt: another process of this job.
func (o *Options) parent() *model.WriterID {
	id, err := model.ParseWriterID(o.env(envAttempt))
	if err != nil || o.again() || o.env(envOrchestration) != o.OrchestrationID {
		return nil
	}
	return &id
}

// publish tells children of this process of the run.
func (o *Options) publish(writer model.WriterID) error {
	values := map[string]string{
		envOrchestration: o.OrchestrationID, envMetranaOrchestration: o.OrchestrationID,
		envAttempt: writer.String(), envAttemptPID: strconv.Itoa(os.Getpid()),
	}
	for name, value := range values {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("publish the attempt: %w", err)
		}
	}
	return nil
}

// number is the first variable that holds a natural number.
func (o *Options) number(names ...string) *int64 {
	for _, name := range names {
		if n, err := strconv.ParseInt(o.env(name), 10, 64); err == nil && n >= 0 {
			return &n
		}
	}
	return nil
}

func (o *Options) initial(now time.Time) ([]model.Update, error) {
	updates, err := flatten("config", o.Config, now)
	if err != nil {
		return nil, err
	}
	o.tellOdd(updates)
	if !o.NoEnvironment {
		updates = append(updates, o.machine(now)...)
	}
	if len(o.Tags) > 0 {
		updates = append(updates, tagUpdates(model.OpSetTags, o.Tags, now)...)
	}
	if o.Description != "" {
		if err := checkText("description", o.Description, maxText); err != nil {
			return nil, err
		}
		updates = append(updates, model.Update{Op: model.OpSetDescription, TimeNs: now.UnixNano(), Text: o.Description})
	}
	return updates, nil
}

// What travels with the open; more of a configuration follows in the spool, so
// that its size decides neither how long Init takes nor whether the server is
// reached in time.
const (
	openValues = 1000
	openBytes  = 64 << 10
)

// fitOpen parts what Init says of the run: the open, and the configuration that
// it has no room for.
func fitOpen(initial []model.Update) (open, later []model.Update) {
	values, room := 0, openBytes
	for _, u := range initial {
		if u.Op != model.OpSetAttribute || !strings.HasPrefix(u.Path, "config/") {
			open = append(open, u)
			continue
		}
		size := 100 + len(u.Path)
		if u.Value != nil {
			size += len(u.Value.Str)
		}
		values, room = values+1, room-size
		if values <= openValues && room >= 0 {
			open = append(open, u)
		} else if u.Value != nil { // a new run has nothing to remove
			u.Initial = true
			later = append(later, u)
		}
	}
	return open, later
}

// tellOdd warns once of a path that is kept, though Metrana's document forbids it.
func (o *Options) tellOdd(updates []model.Update) {
	for i := range updates {
		path := updates[i].Path
		if why := oddPath(path); why != "" {
			o.odd.Do(func() {
				o.Log.Warn("an attribute's path is kept, though Metrana documents only keys of letters, digits, '.', '_', '-', ':'", "path", path, "contains", why)
			})
			return
		}
	}
}

// endsWithUs reports whether nothing on this machine goes on after the program:
// a batch job, or a container that we are the main process of, or its child. A
// container that people work in goes on.
func (o *Options) endsWithUs() bool {
	for _, name := range []string{"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "AWS_BATCH_JOB_ID", "KUBERNETES_SERVICE_HOST"} {
		if o.env(name) != "" {
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

func newRunID(now time.Time) (id model.RunID) {
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	fillRandom(id[6:])
	return id
}

// fillRandom never fails: crypto/rand ends the program rather than return less.
func fillRandom(b []byte) { _, _ = rand.Read(b) }

func randomHex(n int) string {
	b := make([]byte, n)
	fillRandom(b)
	return hex.EncodeToString(b)
}

func checkKey(key string) error {
	if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return invalidf("the API key contains a character at place %d that a key never has", i)
	}
	return nil
}
