package migration

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

// Report is what became of an import, as --json prints it. The states of a run are those of
// every import.
type Report struct {
	Source    string `json:"source"`
	Server    string `json:"server"`
	DryRun    bool   `json:"dry_run"`
	Runs      []Run  `json:"runs"`
	Rows      int64  `json:"rows"`
	Events    int64  `json:"events"`
	Files     int64  `json:"files"`
	FileBytes int64  `json:"file_bytes"`
}

// Run says what became of one run. Rows and Events count what its source has, Bytes, Files
// and FileBytes what was copied.
type Run struct {
	Run       string           `json:"run"` // workspace/project/name
	Key       string           `json:"key"`
	State     string           `json:"state"`
	Rows      int64            `json:"rows"`
	Events    int64            `json:"events"`
	Bytes     int64            `json:"bytes"`
	Files     int64            `json:"files"`
	FileBytes int64            `json:"file_bytes"`
	Skipped   map[string]int64 `json:"skipped,omitempty"`
	Error     string           `json:"error,omitempty"`

	number int // in the order of the source
}

func (r *Run) skip(what string, n int64) {
	if r.Skipped == nil {
		r.Skipped = map[string]int64{}
	}
	r.Skipped[what] += n
}

func (r *Report) add(one Run) {
	r.Runs = append(r.Runs, one)
	r.Rows += one.Rows
	r.Events += one.Events
	r.Files += one.Files
	r.FileBytes += one.FileBytes
}

// Err is what an import ends with that lost a run.
func (r *Report) Err() error {
	if slices.ContainsFunc(r.Runs, func(one Run) bool { return one.State == transfer.Failed }) {
		return transfer.ErrNotAll
	}
	return nil
}

// Print writes it for a person: results on out, what is not imported on errs.
func (r *Report) Print(out, errs io.Writer) {
	for _, one := range r.Runs {
		verb := one.State
		if verb == transfer.LeftOut {
			fmt.Fprintf(errs, "%s: %s, %s\n", table.Printable(one.Run), verb, table.Printable(one.Error))
			continue
		}
		if r.DryRun && verb != transfer.Failed && verb != transfer.Unchanged {
			verb = "would be " + verb
		}
		fmt.Fprintf(out, "%s: %s, %d rows", table.Printable(one.Run), verb, one.Rows)
		if one.Events > 0 {
			fmt.Fprintf(out, ", %d system events", one.Events)
		}
		if one.Files > 0 {
			fmt.Fprintf(out, ", %d files", one.Files)
		}
		fmt.Fprintln(out)
		if one.Error != "" {
			fmt.Fprintf(errs, "  %s\n", table.Printable(one.Error))
		}
		for _, what := range slices.Sorted(maps.Keys(one.Skipped)) {
			fmt.Fprintf(errs, "  not imported: %d %s\n", one.Skipped[what], what)
		}
	}
}
