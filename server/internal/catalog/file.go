package catalog

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
)

// MaxTreeNames is how many trees a call reads of each run at most.
const MaxTreeNames = 8

// Trees are exact texts of runs by name, as model.OpSetTree sets them. Nothing reads what is in them.
type Trees interface {
	// Trees reads those of some names that the run has: CodeNotFound for an unknown run,
	// CodeInvalid past [MaxTreeNames].
	Trees(ctx context.Context, run model.RunID, names ...string) (map[string]string, error)
	// RunsWithTrees reads the runs of a project that are not in the trash, by age. A page is
	// read at a time, so what is changed meanwhile may be seen or not. It ends at an error.
	RunsWithTrees(ctx context.Context, q TreeQuery) iter.Seq2[RunTrees, error]
	// CountRuns counts the same runs.
	CountRuns(ctx context.Context, workspace, project string) (int, error)
}

// TreeQuery says what [Trees.RunsWithTrees] reads.
type TreeQuery struct {
	Workspace, Project string
	After              RunPlace // the zero RunPlace: from the start
	Newest             bool     // first; else the oldest
	Names              []string // of the trees to read with each, at most MaxTreeNames; each once
	// Brief leaves out what a list seldom asks for: of a Run it reads only ID, Workspace,
	// Project, Name, DisplayName, Status, CreatedNs and LastNs.
	Brief bool
	// IDs names the runs to read, each once, in this order instead of by age, without After
	// and Newest; nil: all. Those that are not in the project, or in its trash, are passed over.
	IDs []model.RunID
}

// RunPlace is where a run stands among those of its project by age.
type RunPlace struct {
	CreatedNs int64
	Number    int64 // of this catalog, never 0
}

// RunTrees is a run with some of its trees.
type RunTrees struct {
	Run
	Place RunPlace
	Texts []string // in the order of TreeQuery.Names, "" where it has none
	Notes []*Note  // of these texts; nil where a text is not kept in memory
}

// Note is what a reader found out about a text, for as long as the text is kept in memory. It
// takes less than half of the text's bytes. Readers set it at once, so it says the same each time.
type Note = atomic.Value

// File is a file of a run.
type File struct {
	Name string
	model.RunFile
}

// FileFilter selects files of a run. Its conditions hold together.
type FileFilter struct {
	Names  []string // nil: any; at most MaxFileNames
	Prefix string
	Like   string // a pattern of SQL's LIKE, "" for any: % is any text, _ any character, \ makes the next one plain; A is a
	Limit  int    // 0: as many as a page may have
	Cursor string
}

// MaxFileNames bounds [FileFilter.Names].
const MaxFileNames = 10_000

// Files are those of runs, as model.OpSetFile sets them.
type Files interface {
	// Files lists them by name, byte by byte. A page ends sooner where it has a mebibyte.
	Files(ctx context.Context, run model.RunID, f FileFilter) (page []File, next string, err error)
	// File finds one: CodeNotFound.
	File(ctx context.Context, run model.RunID, name string) (*File, error)
	// CountFiles counts those of a filter and their bytes, whatever its Limit and Cursor say.
	CountFiles(ctx context.Context, run model.RunID, f FileFilter) (files int, bytes int64, err error)
}
