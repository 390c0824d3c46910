package model

import "strings"

// RunStatus is derived from a run's writers.
type RunStatus string

// The statuses of a run.
const (
	StatusRunning  RunStatus = "running"  // a writer is open
	StatusFinished RunStatus = "finished" // every writer closed, workers (WorkerSDK) aside
	StatusFailed   RunStatus = "failed"   // such a writer of the latest attempt closed by an exception
	// StatusInterrupted: none of that, and a writer of it was ended by SIGINT or SIGTERM.
	StatusInterrupted RunStatus = "interrupted"
	StatusLost        RunStatus = "lost"   // such a writer of the latest attempt is gone without a close, or there are workers alone
	StatusSilent      RunStatus = "silent" // the same of writers that cannot close (ReceiverSDK) alone
)

// ResumeStrategy says what an open does when the run's name is taken.
type ResumeStrategy string

// The strategies of Metrana: never joins only its own orchestration id.
const (
	ResumeNever ResumeStrategy = "never"
	ResumeAllow ResumeStrategy = "allow"
)

// OpenRequest is everything a writer knows when it starts. It is idempotent by
// Writer: the same writer always gets the same run and attempt. It is the first
// record of a spool (JSON, docs/format/spool.md), the body of POST /api/v1/open
// and the first message of an ingest stream.
type OpenRequest struct {
	Writer    WriterID `json:"writer"`
	Workspace string   `json:"workspace"`
	Project   string   `json:"project"`
	RunName   string   `json:"run_name"`
	// LocalRun is the ULID that the client made; it stays valid as an alias.
	LocalRun    RunID  `json:"local_run"`
	DisplayName string `json:"display_name,omitempty"`
	Experiment  string `json:"experiment,omitempty"`

	OrchestrationID string         `json:"orchestration_id"`
	ResumeStrategy  ResumeStrategy `json:"resume_strategy"`
	// RestartCount of the launcher (torchelastic, Slurm), when known.
	RestartCount *int64 `json:"restart_count,omitempty"`
	// ParentAttempt is the writer id of the process that published
	// KYMOGRAM_ATTEMPT: forked and spawned children join its attempt.
	ParentAttempt  *WriterID `json:"parent_attempt,omitempty"`
	ResumeFromStep *int64    `json:"resume_from_step,omitempty"`
	ForkFromRun    string    `json:"fork_from_run,omitempty"`
	ForkAtStep     *int64    `json:"fork_at_step,omitempty"`
	LoggerID       *uint64   `json:"logger_id,omitempty,string"`

	Host     string `json:"host"`
	PID      int64  `json:"pid"`
	Rank     *int64 `json:"rank,omitempty"`
	Hotkey   string `json:"hotkey,omitempty"`
	OpenedNs int64  `json:"opened_ns"`
	// Ended names writers of this run or job whose processes are known to be over
	// (their locks are free), at most [MaxEnded]: their ends come before this open,
	// even when what they logged is delivered later.
	Ended []WriterID `json:"ended,omitempty"`
	// Offline: the client started without an answer, so a taken name leads to a
	// linked run NAME-2 instead of an error.
	Offline bool   `json:"offline,omitempty"`
	SDK     string `json:"sdk,omitempty"` // "python/0.1.0"
	// Initial holds the attributes, tags and description given to init; they are
	// applied only by the open that creates the run.
	Initial []Update `json:"initial,omitempty"`
	// WithStarts asks for the next steps of the run's series in the answer.
	WithStarts bool `json:"with_starts,omitempty"`
	// StartsOf names the series that WithStarts is about, at most [MaxStartsOf]; the
	// answer is complete for them, however many the run has. A server that
	// does not know it answers for all series.
	StartsOf []SeriesName `json:"starts_of,omitempty"`
}

// MaxStartsOf bounds the series that an open asks for by name.
const MaxStartsOf = 100

// SeriesName names a series on the wire.
type SeriesName struct {
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels,omitempty"`
}

// ReceiverSDK begins the SDK of a writer that a receiver made for clients whose
// protocol has no end: when nothing comes, nobody can say whether it is over.
const ReceiverSDK = "receiver/"

// ObserverSDK begins the SDK of a writer that watches the machine for a run: the
// run's status and its attempts do not follow such a writer.
const ObserverSDK = "system/"

// WorkerSDK begins the SDK of a writer that a process of the run started, which the catalog
// adds to what it calls itself. The process that opened the run says how it ended; that a
// worker is gone, as by os._exit, or failed is shown of the worker alone.
const WorkerSDK = "worker/"

// IsObserver reports whether a writer only watches.
func IsObserver(sdk string) bool { return strings.HasPrefix(sdk, ObserverSDK) }

// MaxEnded bounds the ended writers of an open.
const MaxEnded = 64

// OpenResult answers an [OpenRequest].
type OpenResult struct {
	Run             RunID  `json:"run"`
	Workspace       string `json:"workspace"`
	Project         string `json:"project"`
	RunName         string `json:"run_name"`
	Attempt         uint32 `json:"attempt"`
	Created         bool   `json:"created"` // this open made the run
	CreatedNs       int64  `json:"created_ns"`
	OrchestrationID string `json:"orchestration_id"`
	// LinkedFrom is the name asked for, when it was taken and RunName is another.
	LinkedFrom string `json:"linked_from,omitempty"`
	// ParentMissing: the run to fork from is not in the project, so nothing is
	// inherited until it comes.
	ParentMissing bool `json:"parent_missing,omitempty"`
	// Mark is the last sequence of this writer that the server has.
	Mark   uint64   `json:"mark"`
	Starts []Start  `json:"starts,omitempty"`
	Envs   []EnvEnd `json:"envs,omitempty"`
	// StartsComplete: every series of the run is in Starts, so a series that is
	// not there starts at 0. False past 10,000 series.
	StartsComplete bool `json:"starts_complete,omitempty"`
}

// Start is the next step of a series: 1 + the last step of its curve.
type Start struct {
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels,omitempty"`
	// Episode of an ENVIRONMENT_STEP series: Next counts within it.
	Episode *int64 `json:"episode,omitempty"`
	Next    int64  `json:"next"`
}

// EnvEnd is where an RL environment stands.
type EnvEnd struct {
	Env         string `json:"env"`
	LastRLStep  int64  `json:"last_rl_step"`
	LastEpisode *int64 `json:"last_episode,omitempty"`
}

// Attempt is one life of a run.
type Attempt struct {
	Number uint32 `json:"number"` // order of first arrival, from 1; never changes
	// Precedence orders attempts: later ones win where steps overlap. It is
	// (restart count when known else 0, opening time), compared in that order
	// inside one orchestration id, else by opening time.
	Precedence int64 `json:"precedence"`
	OpenedNs   int64 `json:"opened_ns"`
	// ResumeFrom S hides points of earlier attempts at step ≥ S (RL: rl_step).
	ResumeFrom *int64 `json:"resume_from_step,omitempty"`
}

// KeptRun is what an engine knows of a run without the catalog.
type KeptRun struct {
	ID       RunID
	Attempts []Attempt // by rising number
	Writers  []KeptWriter
}

// KeptWriter is a writer as an engine knows it.
type KeptWriter struct {
	ID       WriterID
	Attempt  uint32
	LoggerID *uint64
}

// WriterState is the state of a writer.
type WriterState string

// The states of a writer.
const (
	WriterOpen     WriterState = "open"
	WriterFinished WriterState = "finished" // closed
	WriterFailed   WriterState = "failed"   // closed by an exception
	WriterGone     WriterState = "gone"     // its process ended without a close, or 10 minutes of silence
	// WriterInterrupted: its process was ended by SIGINT or SIGTERM.
	WriterInterrupted WriterState = "interrupted"
)

// Ledger is what is known of a run's points from end to end. Logged, Spooled
// and Dropped are what the clients reported; Stored and Refused are ours.
type Ledger struct {
	Logged     uint64 `json:"logged"` // stored + superseded counted once, refused, skipped and dropped included
	Stored     uint64 `json:"stored"`
	Superseded uint64 `json:"superseded"`
	Refused    uint64 `json:"refused"`
	Dropped    uint64 `json:"dropped"`
	// Spooled is nil when the client of an open or silent writer does not say:
	// Logged then lacks what lies there.
	Spooled *uint64   `json:"spooled"`
	Skipped []Skipped `json:"skipped,omitempty"`
	Damaged []Damage  `json:"damaged,omitempty"`
}

// Damage is stored points of a run that cannot be read any more: the file is set
// aside and the rest is served. It is found when the place is read.
type Damage struct {
	File      string `json:"file"` // in the store's folder
	Points    uint64 `json:"points"`
	MinTimeNs int64  `json:"min_time_ns"`
	MaxTimeNs int64  `json:"max_time_ns"`
}

// SharedEnvironment is an RL environment that two writers of one attempt logged
// at the same time: their steps mix.
type SharedEnvironment struct {
	Env     string      `json:"env_id"`
	TimeNs  int64       `json:"time_ns"` // since when
	Writers [2]WriterID `json:"writers"`
}

// SharedWith tells a writer who else logs an environment.
type SharedWith struct {
	Env    string   `json:"env_id"`
	Writer WriterID `json:"writer"`
	Host   string   `json:"host"`
	PID    int64    `json:"pid"`
	Rank   *int64   `json:"rank,omitempty"`
}
