package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// Terminal tells a person, or with JSON a program, what was found.
type Terminal struct {
	Out, Err     io.Writer
	JSON, Colour bool
}

// ErrCaught ends a command whose output has said what is wrong.
var ErrCaught = errors.New("the records do not hold; the reasons are above")

// report is what a check found.
type report interface {
	OK() bool
	Print(out io.Writer, colour bool) error
}

// tell prints a report; one that is not OK is [ErrCaught].
func (t Terminal) tell(r report) (err error) {
	if t.JSON {
		err = table.JSON(t.Out, r)
	} else {
		err = r.Print(t.Out, t.Colour)
	}
	if err == nil && !r.OK() {
		err = ErrCaught
	}
	return err
}

// ShowRun judges a run's newest record.
func (t Terminal) ShowRun(ctx context.Context, s Server, run *Run, o Options) error {
	newest, err := s.Newest(ctx, run)
	if err != nil {
		return err
	}
	if newest.Head == nil {
		return model.Errorf(model.CodeNotFound, "run %s has no signed record", run).WithHint("netstate writes one with update_config")
	}
	judgement, err := Judge(ctx, run, newest, o)
	if err != nil {
		return err
	}
	judged := &Judged{newest.Head, judgement}
	if t.JSON {
		return table.JSON(t.Out, judged.Document())
	}
	return PrintRecord(t.Out, judged, t.Colour)
}

// ShowProject judges the newest record of every run.
func (t Terminal) ShowProject(ctx context.Context, s Server, workspace, project string, o Options) error {
	list, err := s.Judge(ctx, workspace, project, o)
	if err != nil {
		return err
	}
	if t.JSON {
		return table.JSON(t.Out, Documents(list))
	}
	if len(list) == 0 {
		defer fmt.Fprintln(t.Err, "no records")
	}
	return PrintList(t.Out, list, t.Colour)
}

// History lists every record of a run.
func (t Terminal) History(ctx context.Context, s Server, run *Run) error {
	if t.JSON {
		return t.Export(ctx, s, run, t.Out)
	}
	return PrintHistory(t.Out, func(each func(*state.Entry) error) error { return s.History(ctx, run, each) })
}

// Export writes every record of a run as JSON lines.
func (t Terminal) Export(ctx context.Context, s Server, run *Run, out io.Writer) error {
	bar := progress.Count(t.Err, -1, "records")
	defer bar.End()
	return s.History(ctx, run, func(e *state.Entry) error {
		bar.Done(1)
		return table.JSON(out, e)
	})
}

// VerifyRun checks a run's history.
func (t Terminal) VerifyRun(ctx context.Context, s Server, run *Run, o Options) error {
	bar := progress.Count(t.Err, -1, "verify")
	found, err := s.Verify(ctx, run, o, func() { bar.Done(1) })
	bar.End()
	if err != nil {
		return err
	}
	return t.tell(found)
}

// VerifyFile checks a file of evidence.
func (t Terminal) VerifyFile(ctx context.Context, path string, o Options) error {
	found, err := VerifyFile(ctx, path, o)
	if err != nil {
		return err
	}
	return t.tell(found)
}

// Audit holds what a server shows beside its log.
func (t Terminal) Audit(ctx context.Context, l Log, path string, again bool) error {
	found, err := l.Audit(ctx, path, again, func(leaves int64) progress.Bar { return progress.Count(t.Err, leaves, "leaves") })
	if err != nil {
		return t.caught(err)
	}
	return t.tell(found)
}

// Head shows a head, or what err holds against the server that gave it; said comes
// before, for a person.
func (t Terminal) Head(said string, h *transparency.SignedHead, err error) error {
	if err != nil {
		return t.caught(err)
	}
	if t.JSON {
		return table.JSON(t.Out, h)
	}
	fmt.Fprint(t.Out, said)
	return PrintHead(t.Out, h)
}

// caught prints the evidence against a server before the error.
func (t Terminal) caught(err error) error {
	split := Evidence(err)
	if split == nil {
		return err
	}
	text, failed := json.Marshal(split)
	if failed != nil {
		return failed
	}
	fmt.Fprintf(t.Out, "%s\n", text)
	return err
}
