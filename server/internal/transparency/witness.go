package transparency

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// Source is a server's log as a witness sees it.
type Source interface {
	Head(ctx context.Context) (*SignedHead, error)
	Consistency(ctx context.Context, from, to uint64) ([]state.Hash, error)
}

// Witness follows one log and remembers the last head that held.
type Witness struct {
	Last *SignedHead // nil: the next one is believed
}

// Contradiction says that a server does not continue what a witness saw.
type Contradiction struct {
	Split  *Split
	Reason string
	// Proven: the two heads alone prove it to anyone. Otherwise the server gives no
	// proof that joins them, and a record at one place settles it.
	Proven bool
}

func (c *Contradiction) Error() string { return c.Reason }

// Follow reads the log's head and checks that it continues the last one. The head
// may be cosigned after that. A [Contradiction] carries both heads.
func (w *Witness) Follow(ctx context.Context, log Source) (*SignedHead, error) {
	head, err := log.Head(ctx)
	if model.CodeOf(err) == model.CodeNotFound && w.Last != nil && w.Last.Size > 0 {
		return nil, model.Errorf(model.CodeInvalid, "the server shows no log of %s/%s any more (%v), and a head of %d records was seen: it hides the log, or it has it under another name", w.Last.Workspace, w.Last.Project, err, w.Last.Size).
			WithHint("name the server and the project of before; keep the --seen file, which holds the signed head")
	}
	if err != nil {
		return nil, fmt.Errorf("read the tree head: %w", err)
	}
	if err := head.Check(); err != nil {
		return nil, err
	}
	if w.Last != nil {
		if err := w.compare(ctx, log, head); err != nil {
			return nil, err
		}
	}
	if w.Last == nil || head.Size >= w.Last.Size {
		w.Last = head
	}
	return head, nil
}

func (w *Witness) compare(ctx context.Context, log Source, head *SignedHead) error {
	if err := sameLog(w.Last, head); err != nil {
		return err
	}
	found := &Contradiction{Split: &Split{A: *w.Last, B: *head}}
	if told, err := found.Split.Check(); err == nil {
		found.Reason, found.Proven = told, true
		return found
	}
	from, to := w.Last, head
	if from.Size > to.Size {
		from, to = to, from
	}
	if from.Size == to.Size || from.Size == 0 {
		return nil
	}
	hashes, err := log.Consistency(ctx, from.Size, to.Size)
	if err != nil {
		return fmt.Errorf("read the proof that size %d continues size %d: %w", to.Size, from.Size, err)
	}
	if err := CheckConsistency(from, to, hashes); err != nil {
		found.Reason = err.Error()
		return found
	}
	return nil
}
