package transfer

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/server/internal/importer"
	"github.com/kymogram/kymogram/server/internal/table"
)

// The states of a run of an import.
const (
	Imported  = "imported"
	Updated   = "updated"   // its source changed since the last import
	Unchanged = "unchanged" // it was imported before
	Failed    = "failed"
	LeftOut   = "left out"
)

// Report is what became of an import, as `kymogram import --json` prints it.
type Report struct {
	Source  string `json:"source"`
	DryRun  bool   `json:"dry_run"`
	Runs    []Run  `json:"runs"`
	Points  uint64 `json:"points"`
	Refused uint64 `json:"points_refused"`
}

// Run says what became of one run.
type Run struct {
	Run     string            `json:"run"` // workspace/project/name
	ID      string            `json:"id,omitempty"`
	Key     string            `json:"key"`
	State   string            `json:"state"`
	Series  int               `json:"series"`
	Points  uint64            `json:"points"`
	Files   int               `json:"files,omitempty"` // that are there now
	Skipped map[string]uint64 `json:"skipped,omitempty"`
	Damage  []importer.Damage `json:"damage,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// ErrNotAll is what an import ends with that lost something.
var ErrNotAll = errors.New("not every run was imported")

// Err is ErrNotAll when a run failed or the server refused points.
func (r *Report) Err() error {
	failed := slices.ContainsFunc(r.Runs, func(one Run) bool { return one.State == Failed })
	if failed || r.Refused > 0 {
		return ErrNotAll
	}
	return nil
}

// Print writes it for a person: results on out, what is not imported on errs.
func (r *Report) Print(out, errs io.Writer) {
	for _, one := range r.Runs {
		verb := one.State
		if verb == LeftOut {
			fmt.Fprintf(errs, "%s: %s, %s\n", table.Printable(one.Run), verb, one.Error)
			continue
		}
		if r.DryRun && verb != Failed && verb != Unchanged {
			verb = "would be " + verb
		}
		files := ""
		if one.Files > 0 {
			files = fmt.Sprintf(", %d files", one.Files)
		}
		fmt.Fprintf(out, "%s: %s, %d series, %d points%s\n", table.Printable(one.Run), verb, one.Series, one.Points, files)
		if one.Error != "" {
			fmt.Fprintf(errs, "  %s\n", table.Printable(one.Error))
		}
		for _, why := range slices.Sorted(maps.Keys(one.Skipped)) {
			fmt.Fprintf(errs, "  not imported: %d %s\n", one.Skipped[why], table.Printable(why))
		}
		for _, d := range one.Damage {
			fmt.Fprintf(errs, "  damaged: %s%s: %s\n", table.Printable(d.File), at(d.Offset), table.Printable(d.Text))
		}
	}
	if r.Refused > 0 {
		fmt.Fprintf(errs, "the server refused %d points\n", r.Refused)
	}
}

func at(offset int64) string {
	if offset < 0 {
		return ""
	}
	return fmt.Sprintf(" at byte %d", offset)
}
