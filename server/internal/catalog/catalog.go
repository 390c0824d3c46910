// Package catalog is the contract of the database of runs, attributes, writers
// and keys: what ingest, query and auth may rely on. catalogtest holds the suite
// that every catalog passes; sqlite is the embedded one.
//
// In: opens of writers, updates of runs, keys. Out: runs as they are listed and in
// detail. Every method is durable on return and safe for concurrent use. An update
// from the store's log is applied once, however often it comes. One damaged file costs
// nothing that was durable, and never makes a revoked key valid. Points and series do
// not live here, see package store.
//
// Start reading at [Opener] (how a run comes to be) and [Journal] (how it changes).
package catalog

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// MaxConfig is how many attributes Run.Config has at most.
const MaxConfig = 100

// Run is a run as it is listed.
type Run struct {
	ID          model.RunID
	Workspace   string
	Project     string
	Name        string
	DisplayName string
	Description string
	Status      model.RunStatus
	Tags        []string // sorted
	CreatedNs   int64
	// LastNs is when its writers ended, by what they said in closing, never later
	// than the server heard it; the last sign of life of one that did not say and
	// while the run goes on.
	LastNs int64
	// Attempt is the number of the latest one, by precedence.
	Attempt         uint32
	OrchestrationID string
	// ParentRun is the name that it asked to fork from; Parent the run of that name
	// when it came, zero while there is none. ForkStep nil: everything the parent has.
	ParentRun  string
	Parent     model.RunID
	ForkStep   *int64
	LinkedFrom string // the name it asked for, when that was taken
	Writers    int
	DeletedNs  int64 // in the trash since, 0 when not
	// Config are the attributes under config/, the first MaxConfig by path; nil where
	// nobody asked for them.
	Config []Attribute
}

// Detail is everything of one run but its Config. Attributes, EnvAttributes, Writers and
// Events end early where they are long; Next says where they go on.
type Detail struct {
	Run
	Next          Rest
	Attributes    []Attribute    // sorted by path
	EnvAttributes []EnvAttribute // sorted by env, episode, path
	Attempts      []model.Attempt
	Writers       []WriterInfo
	Aliases       []model.RunID             // local ULIDs of clients
	Dropped       uint64                    // points that clients reported as dropped
	Refused       uint64                    // points that ingest refused; the store counts its own in RunStats
	Events        []Event                   // the newest 1,000
	Shared        []model.SharedEnvironment // the first 1,000, by environment
	Forks         []Fork                    // of this run, not in the trash: the oldest 1,000
}

// Rest are the cursors of [Details] behind the lists of a [Detail], "" at an end.
type Rest struct{ Attributes, EnvAttributes, Writers, Events string }

// Fork is a run that goes on from another.
type Fork struct {
	ID                model.RunID
	Name, DisplayName string
	ForkStep          *int64
}

// Attribute is one path=value of a run.
type Attribute struct {
	Path  string
	Value model.Value
}

// EnvAttribute is an attribute of an RL environment, Episode nil for all.
type EnvAttribute struct {
	Env     string
	Episode *int64
	Attribute
}

// Event is a tagged record with text.
type Event struct {
	TimeNs int64
	Name   string
	Text   string
	Tags   map[string]string
}

// WriterInfo is one writer of a run.
type WriterInfo struct {
	ID       model.WriterID
	Attempt  uint32
	State    model.WriterState
	Signal   string // what ended the process of an interrupted one: SIGINT, SIGTERM
	Host     string
	PID      int64
	Rank     *int64
	Hotkey   string
	SDK      string
	LoggerID *uint64
	OpenedNs int64
	SeenNs   int64
	Silent   bool // gone for its silence: its client may still come back
}

// Opened is the outcome of an open.
type Opened struct {
	model.OpenResult
	AttemptInfo model.Attempt
	Deleted     bool // the run is in the trash, and the writer was known
}

// RunFilter selects runs of a project, newest first unless Sort says otherwise.
type RunFilter struct {
	Workspace, Project string
	Name, Tag          string // exact, empty = any
	Status             model.RunStatus
	// Query is the one-line filter of docs/guides/filter.md, as package filter reads it.
	Query string
	// Parsed counts in place of Query, where the caller has read it, or made another filter of it.
	Parsed *filter.Expr
	// Members are groups that the runs are in.
	Members []Member
	// Only are the runs to choose from; nil: all.
	Only    []model.RunID
	Sort    string // created (default), name, last, status, an attribute's path or an aggregate of a metric, as min(loss); "-" in front: descending
	Deleted bool   // the trash instead
	Steps   Steps  // of what Query and Sort name with at(…)
	Limit   int
	Cursor  string
	Configs bool // read Run.Config
	// Bytes of descriptions, tags and configs end a page sooner; 0: as many as there
	// are. Where not even one run fits the error is [ErrLarge].
	Bytes int64
}

// Steps are values of metrics at a step, by run. The store has them.
type Steps map[filter.Metric]map[model.RunID]float64

// ErrLarge says that a run has more bytes than a page may have.
var ErrLarge = errors.New("a run is larger than a page")

// RenderingFilter selects videos of a run.
type RenderingFilter struct {
	Env     string // empty: every environment
	Episode *int64
	Tag     string
	Limit   int
	Cursor  string
}

// Runs is what query reads of runs and projects.
type Runs interface {
	ListRuns(ctx context.Context, f RunFilter) (page []Run, next string, err error)
	// RunsWith lists the runs of a project, not in the trash, that have a summary of a metric.
	RunsWith(ctx context.Context, workspace, project, metric string) ([]model.RunID, error)
	// FindRun finds by name.
	FindRun(ctx context.Context, workspace, project, name string) (model.RunID, error)
	ListProjects(ctx context.Context, limit int, cursor string) (page []Project, next string, err error)
	// HasProject says whether a project is there, with runs or without.
	HasProject(ctx context.Context, workspace, project string) (bool, error)
}

// Named is a run as people name it.
type Named struct {
	ID          model.RunID
	Workspace   string
	Project     string
	Name        string
	DisplayName string
	CreatedNs   int64
}

// NameFilter selects runs by their name or display name.
type NameFilter struct {
	Workspace, Project string // empty: any
	Name               string // exact
	Deleted            bool   // the trash instead
	Limit              int
}

// Names is what query reads to understand what people call runs and projects. No answer takes
// longer for more runs.
type Names interface {
	// NamedRuns lists the runs of a name or display name: those of a project together, the
	// newest first.
	NamedRuns(ctx context.Context, f NameFilter) ([]Named, error)
	// RunsNear lists runs whose names may be near to one that no run has: some of the newest, and
	// those before and behind it by name. Limit bounds each of these.
	RunsNear(ctx context.Context, f NameFilter) ([]Named, error)
	// NamedProjects lists the projects of a name, by workspace.
	NamedProjects(ctx context.Context, name string, limit int) ([]Place, error)
	// ProjectsNear is RunsNear for projects.
	ProjectsNear(ctx context.Context, name string, limit int) ([]Place, error)
}

// Details is what query reads of one run.
type Details interface {
	// GetRun finds by ULID or by the alias of a client.
	GetRun(ctx context.Context, id model.RunID) (*Detail, error)
	// Config reads Run.Config: ErrLarge where it has more bytes; 0: as many as there are.
	Config(ctx context.Context, run model.RunID, bytes int64) ([]Attribute, error)
	Lists
	Trees
	Files
}

// Lists are those of a run. A page has at least one entry, and ends where its texts have a
// quarter of a mebibyte; next is "" at the end.
type Lists interface {
	Attributes(ctx context.Context, run model.RunID, cursor string) (page []Attribute, next string, err error)
	EnvAttributes(ctx context.Context, run model.RunID, cursor string) (page []EnvAttribute, next string, err error)
	// Writers are by age.
	Writers(ctx context.Context, run model.RunID, cursor string) (page []WriterInfo, next string, err error)
	Events(ctx context.Context, run model.RunID, cursor string) (page []Event, next string, err error)
}

// Summary is what lists filter and sort a run by: the last value of a metric's curve, and
// the least and the greatest finite one.
type Summary struct {
	Metric         string
	Points         uint64
	Last, Min, Max model.Value // integers or floats; Min and Max zero where no value is finite
}

// MaxSummaries is how many metrics of a run are kept, the first by name.
const MaxSummaries = 1_000

// Summaries keeps those of runs. They follow from the store: what is lost is made again.
type Summaries interface {
	// Summaries lists them by metric.
	Summaries(ctx context.Context, run model.RunID) ([]Summary, error)
	// PutSummaries replaces those of a run, read from the store at a time. A purged run is
	// passed over.
	PutSummaries(ctx context.Context, run model.RunID, all []Summary, at time.Time) error
	// Unsummarised lists runs with activity since their summaries were read, the
	// newest first.
	Unsummarised(ctx context.Context, limit int) ([]model.RunID, error)
}

// Renderings is what query reads of videos.
type Renderings interface {
	// ListRenderings lists the videos of a run by environment, episode and time. A page
	// ends sooner where their texts have a mebibyte.
	ListRenderings(ctx context.Context, run model.RunID, f RenderingFilter) (page []model.Rendering, next string, err error)
	// Rendering finds one of a run's videos: CodeNotFound.
	Rendering(ctx context.Context, run model.RunID, id string) (*model.Rendering, error)
	// Naming lists the projects with a run, not in the trash, that names a blob
	// (SHA-256 in hexadecimal) as a video or a file, or an artifact that does: who may
	// read one of them may read the blob.
	Naming(ctx context.Context, blob string) ([]Place, error)
}

// View is a view document of a project (docs/format/view.md).
type View struct {
	Name      string
	Title     string
	Panels    int
	Tag       string // names the text
	ChangedNs int64
	Document  string // "" in a list
}

// MaxViews is how many views a project may have.
const MaxViews = 1_000

// Views is what query reads of a project's views.
type Views interface {
	// ListViews lists them by name, without their documents. There are at most [MaxViews].
	ListViews(ctx context.Context, workspace, project string) ([]View, error)
	// View finds one: CodeNotFound.
	View(ctx context.Context, workspace, project, name string) (*View, error)
}

// ViewKeeper is what ingest changes of views.
type ViewKeeper interface {
	// PutView stores a view, and makes the project where there is none. CodeConflict
	// unless the view is as the condition says, CodeLimit beyond [MaxViews].
	PutView(ctx context.Context, workspace, project string, v View, c Condition) error
	// DeleteView removes one for good: CodeNotFound, CodeConflict.
	DeleteView(ctx context.Context, workspace, project, name string, c Condition) error
}

// Condition is what a view must be for a change to be made. The zero Condition holds always.
type Condition struct {
	Absent bool   // there is none yet
	Tag    string // it has this tag; empty: any
}

// Reader is all that query reads.
type Reader interface {
	Runs
	Names
	Details
	Shared
	Tables
}

// Shared is what query reads of what several runs or people share.
type Shared interface {
	Renderings
	Views
	ArtifactReader
}

// Place is a project's full name.
type Place struct{ Workspace, Project string }

// Project is a line of the list of projects.
type Project struct {
	Workspace, Name string
	Runs            int
	LastNs          int64
}

// TagKeep keeps a run from retention.
const TagKeep = "keep"

// Recovered is the workspace and the project of runs whose names are lost.
const Recovered = "recovered"

// Recorder is what ingest needs.
type Recorder interface {
	Opener
	Journal
	Liveness
	Bin
	Retention
}

// Opener gives runs, attempts and writers their place.
type Opener interface {
	// Open finds or makes the run, attempt and writer of a request by the rules of
	// docs/design/points.md (Attempts); idempotent by writer. A
	// rank that began offline joins the attempt of its job that lacks it.
	// CodeRunExists when the name belongs to another orchestration and the
	// strategy is never and the client is not Offline; Offline leads to NAME-2.
	// CodeRunDeleted when its run is deleted; a known writer of a run in the trash
	// gets it, Deleted, so that its late points can be refused and counted.
	Open(ctx context.Context, r model.OpenRequest, now time.Time) (*Opened, error)
	// Recover brings back the runs that the engine kept and no ULID here means, as
	// lost runs of [Recovered], with their attempts and writers; all or none. An
	// open of one of their writers, or with their ULID as its LocalRun, moves such
	// a run to the place that it names.
	Recover(ctx context.Context, kept iter.Seq[model.KeptRun], now time.Time) (back []model.RunID, err error)
	// Nameless counts the recovered runs that no open has moved, no person has
	// given a display name and nobody has deleted.
	Nameless(ctx context.Context) (int, error)
}

// Journal takes what writers and people say of a run.
type Journal interface {
	// Lookup finds a run by ULID or alias, in the trash too: CodeNotFound for one
	// that never was, CodeRunDeleted for a purged one.
	Lookup(ctx context.Context, id model.RunID) (*Run, error)
	// Apply applies updates once: those with lsn ≤ the run's applied LSN are
	// skipped. It also moves the writer's state (close, gone) and LastNs. With
	// lsn 0 they are applied always (edits that did not come through the WAL);
	// an unknown or purged run is passed over without an error. Without a writer
	// they are a person's and no sign of life.
	Apply(ctx context.Context, run model.RunID, w model.WriterID, lsn uint64, updates []model.Update, now time.Time) error
}

// Liveness tells writers that are silent from those that are not.
type Liveness interface {
	// Seen records signs of life, in bulk, and names the runs of the writers
	// that had expired and are open again.
	Seen(ctx context.Context, seen map[model.WriterID]time.Time) (revived []model.RunChange, err error)
	// Expire turns writers without a sign of life since before into gone ones and
	// names their runs, each once.
	Expire(ctx context.Context, before time.Time) (lost []model.RunChange, err error)
}

// Bin is deletion in two steps.
type Bin interface {
	Trash(ctx context.Context, id model.RunID, now time.Time) error
	Restore(ctx context.Context, id model.RunID) error
	// Purge removes the run for good; its id and aliases stay reserved.
	Purge(ctx context.Context, id model.RunID) error
	// TrashedBefore lists what is due.
	TrashedBefore(ctx context.Context, before time.Time) ([]model.RunID, error)
	// Gone are those of some runs that are in the trash or purged, in their order.
	Gone(ctx context.Context, ids []model.RunID) ([]model.RunID, error)
}

// Retention tells what may go by itself.
type Retention interface {
	// Idle lists what retention may delete: runs that nobody writes to, whose last
	// sign of life is before a time and that have no tag [TagKeep]; those in the
	// trash first, then by their last sign of life.
	Idle(ctx context.Context, before time.Time, limit int) ([]Run, error)
	// Referenced are those of some blobs (SHA-256 in hexadecimal) that a run names.
	// Whatever comes to name blobs belongs into it: the others are deleted.
	Referenced(ctx context.Context, blobs []string) (map[string]bool, error)
}

// Scope is a right of a key.
type Scope string

// The scopes: admin implies read and ingest.
const (
	ScopeIngest Scope = "ingest"
	ScopeRead   Scope = "read"
	ScopeAdmin  Scope = "admin"
)

// Key is a stored API key; the key itself is never stored.
type Key struct {
	ID        string // short, shown in lists
	Name      string
	SHA256    [32]byte
	Scopes    []Scope
	Workspace string // empty: every workspace
	Project   string // empty: every project of the workspace
	CreatedNs int64
	ExpiresNs int64 // 0: never
	RevokedNs int64 // 0: valid
	LastNs    int64 // last use
}

// Keys is what auth needs.
type Keys interface {
	PutKey(ctx context.Context, k Key) error
	FindKey(ctx context.Context, sha256 [32]byte) (*Key, error) // CodeNotFound
	ListKeys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, id string, now time.Time) error
	UseKey(ctx context.Context, id string, now time.Time) error
}

// Derived is what comes with runs and projects and is no record of theirs.
type Derived interface {
	ViewKeeper
	ArtifactKeeper
	Summaries
}

// Catalog is what cmd opens and closes.
type Catalog interface {
	Reader
	Recorder
	Derived
	Keys
	Close() error
}
