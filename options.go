package kymogram

import (
	"log/slog"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Version is the version of this package.
const Version = "0.1.0"

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

	// ResumeStrategy is that of KYMOGRAM_RESUME_STRATEGY when empty. Where nothing
	// says one, the name of another job's run leads to a new run, NAME-2.
	ResumeStrategy ResumeStrategy
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

	// EndOnSignal: SIGINT and SIGTERM end the run as interrupted, and then the program
	// as they do by default. For programs that do not handle them; the others call
	// [Run.Interrupt], or [Run.Fail] with the cause of the context that ended.
	EndOnSignal bool

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

	newName bool // the name of another job's run leads to a new run NAME-2
	newJob  bool // and no other process has this job: its run has no other points

	env func(string) string // os.Getenv; tests have their own
	odd *sync.Once          // a path that only Metrana's document forbids was told of
}

// ResumeStrategy says what Init does when the run's name is taken.
type ResumeStrategy = model.ResumeStrategy

// The strategies.
const (
	// ResumeNever joins a run of the same orchestration id only.
	ResumeNever = model.ResumeNever
	// ResumeAllow joins whatever run has the name.
	ResumeAllow = model.ResumeAllow
)

// Backpressure says what a log call does when too much waits for the server.
type Backpressure string

// The strategies.
const (
	// BackpressureSpool: the disk is the queue, and no call waits. The default.
	BackpressureSpool Backpressure = "spool"
	// BackpressureDropNew drops the call's points, and counts them.
	BackpressureDropNew Backpressure = "drop_new"
	// BackpressureBlock waits until the queue takes it, without a limit.
	BackpressureBlock Backpressure = "block"
	// BackpressureRaise returns [ErrQueueFull].
	BackpressureRaise Backpressure = "raise"
)

// ErrorStrategy says what becomes of errors of the delivery.
type ErrorStrategy string

// The strategies. Whatever is chosen, [Options.OnError] hears every error and
// [Run.SenderErrors] keeps them.
const (
	ErrorsSilent       ErrorStrategy = "silent"
	ErrorsWarn         ErrorStrategy = "warn"           // to Options.Log
	ErrorsRaiseOnLog   ErrorStrategy = "raise_on_log"   // returned by the next log call
	ErrorsRaiseOnClose ErrorStrategy = "raise_on_close" // joined to Close's
)

// The choices of RenderingOptions.Upload.
const (
	UploadAll       = "all"
	UploadTriggered = "triggered" // videos that were tagged or marked
	UploadOff       = "off"
)

// RenderingOptions say how frames become videos.
type RenderingOptions struct {
	FPS                   int // 30 when 0
	MaxConcurrentEncoders int // environments that render at once; 16 when 0
	QueueMaxSize          int // frames that wait; 64 MiB of them when 0
	NumEncoderThreads     int // 2 when 0
	// Upload is UploadAll when empty.
	Upload string
	// UploadConcurrency is how many videos are uploaded at once, at most 16; 4 when 0.
	UploadConcurrency int
	// UploadWarnThreshold is how many videos may wait for their upload before it is
	// told; 100 when 0, -1 for any number.
	UploadWarnThreshold int
	// UploadCloseTimeout is the part of Close that waits for uploads; what
	// CloseTimeout leaves when 0. The rest is left to `kymogram sync`.
	UploadCloseTimeout time.Duration
	// OutputDir keeps the videos, as RUN/ENV_EPISODE.mp4; with Upload off it is
	// renderings in the user's state folder when empty.
	OutputDir string
	// DeleteAfterUpload leaves none in OutputDir that is uploaded.
	DeleteAfterUpload bool
	// SkipDrainOnClose drops the frames that wait (KYMOGRAM_SKIP_DRAIN_RENDER_ON_CLOSE).
	SkipDrainOnClose bool
	// CloseTimeout is the part of Close that encoding may take; all of it when 0
	// (KYMOGRAM_RENDERING_CLOSE_TIMEOUT, seconds).
	CloseTimeout time.Duration
	// FFmpeg is the encoder's program; the ffmpeg of PATH when empty.
	FFmpeg string
}
