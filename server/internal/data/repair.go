package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/table"
)

// Repaired is what repairing a folder came to, or would.
type Repaired struct {
	Data    string           `json:"data"`
	Done    bool             `json:"done"` // false: it was only looked at
	Needed  bool             `json:"needed"`
	Catalog *sqlite.Health   `json:"catalog"`
	States  *statelog.Health `json:"states"`
	Small   []*Small         `json:"small"`
}

// Repair makes the catalog of a folder that no server uses agree with its mirror, and
// mends what it can of the small files; without do it only says what there is to repair.
// Its progress goes to shown.
func (f Folder) Repair(ctx context.Context, do bool, log *slog.Logger, shown io.Writer) (*Repaired, error) {
	if err := f.Elsewhere(); err != nil {
		return nil, err
	}
	lock, err := f.alone(do)
	if errors.Is(err, wal.ErrLocked) {
		return nil, model.Errorf(model.CodeUnavailable, "the data folder %s is in use by another process", string(f)).
			WithHint("stop the server first; its next start repairs the catalog by itself")
	}
	if err != nil {
		return nil, model.Errorf(model.CodeNotFound, "%s is no data folder: %v", string(f), err).WithHint("name the folder that was given to `kymogram serve --data`")
	}
	defer lock.Close()
	if do {
		if err := f.Live(log); err != nil {
			return nil, err
		}
	}
	// What is made anew is about as large as the mirror and the catalog, whichever there is.
	bar := progress.Bytes(shown, max(SizeOf(f.Catalog()), SizeOf(f.Catalog()+"-mirror")), "repair")
	defer bar.End()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go watchWriting(watched, f.Catalog()+".rebuilt*", bar)
	out := &Repaired{Data: string(f), Done: do}
	if out.Catalog, err = sqlite.Plan(ctx, f.Catalog(), f.CatalogMark()); err == nil && do {
		out.Catalog, err = sqlite.Repair(ctx, f.Catalog(), f.CatalogMark(), log)
	}
	if err != nil {
		return nil, err
	}
	mend := statelog.Plan
	if do {
		mend = statelog.Repair
	}
	older, err := statelog.Older(ctx, f.States(), f.StateMark())
	if err != nil {
		return nil, err
	}
	if out.States, err = mend(ctx, f.States(), log); err != nil {
		return nil, err
	}
	out.States.Older = older
	if out.Small, err = f.small(ctx); err != nil {
		return nil, err
	}
	lists, err := f.lists(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range append(out.Small, lists...) {
		if do && s.mend != nil {
			if err := s.mend(); err != nil {
				return nil, fmt.Errorf("repair %s: %w", s.File, err)
			}
		}
	}
	out.Small = append(out.Small, lists...)
	out.Needed = !out.Catalog.Healthy() || !out.States.Healthy() || len(out.Small) > 0
	return out, nil
}

// alone holds the folder's lock. Who only looks makes no file for it: a backup has none.
func (f Folder) alone(do bool) (io.Closer, error) {
	if do {
		return f.Lock()
	}
	lock, err := wal.Looking{}.Lock(f.lockFile())
	if errors.Is(err, fs.ErrNotExist) {
		return os.Open(f.Store())
	}
	return lock, err
}

// Print writes it for a person.
func (r *Repaired) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, table.Printable(fmt.Sprintf(format, args...)))
	}
	c := r.Catalog
	if !r.Needed {
		line("catalog", "nothing to repair, nor in the state records and small files")
	}
	if c.Rebuilt != "" {
		line("catalog", "%s from its mirror: %s", r.verb("made anew"), c.Rebuilt)
	}
	if c.CaughtUp > 0 {
		line("catalog", "%s with %d changes of its mirror", r.verb("caught up"), c.CaughtUp)
	}
	if c.Renewed != "" {
		line("mirror", "%s from the catalog: %s", r.verb("made anew"), c.Renewed)
	}
	if c.Older != "" {
		line("catalog", "%s; this %s as it is", c.Older, r.verb("taken"))
	}
	for _, text := range slices.Concat(c.Lost, r.States.Lost) {
		line("LOST", "neither has it whole: %s", text)
	}
	if c.Closed > 0 {
		line("keys", "%d revoked: what revoked them earlier may be lost. Make new ones with `kymogram key create --data %s`", c.Closed, r.Data)
	}
	s := r.States
	if s.Rebuilt != "" {
		line("state", "%s from its mirror: %s", r.verb("made anew"), s.Rebuilt)
	}
	if s.CaughtUp > 0 {
		line("state", "%s with %d changes of its mirror", r.verb("caught up"), s.CaughtUp)
	}
	if s.Renewed != "" {
		line("state's mirror", "%s from the records: %s", r.verb("made anew"), s.Renewed)
	}
	if s.Older != "" {
		line("state", "%s; the next start takes it as it is", s.Older)
	}
	for _, small := range r.Small {
		line(small.File, "%s; %s", small.Fault, r.stand(small))
	}
	for _, path := range slices.Concat(c.SetAside, s.SetAside) {
		line("kept aside", "%s", filepath.Base(path))
	}
	if r.Needed && !r.Done {
		line("", "nothing was changed; add --yes to repair")
	}
	return w.Flush()
}

// stand is whether a small file is mended.
func (r *Repaired) stand(s *Small) string {
	switch {
	case s.Mends == "":
		return "NOT mended here: " + s.Remedy
	case r.Done:
		return "mended: " + s.Mends
	}
	return "to be mended: " + s.Mends
}

func (r *Repaired) verb(done string) string {
	if r.Done {
		return done
	}
	return "to be " + done
}
