package dir

import (
	"context"
	"crypto/sha256"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

const (
	// checksAtOnce is how many files are compared with their names at once.
	checksAtOnce = 2
	// mostVerdicts bounds what is remembered; what is forgotten is compared again.
	mostVerdicts = 10_000
)

// verdicts remember which files hold the bytes that their names say: a file is read as a
// whole before its first byte is served, and once while it stays the same file.
type verdicts struct {
	log    *slog.Logger
	slots  chan struct{}
	mu     sync.Mutex
	of     map[blob.Hash]verdict
	broken uint64
}

type verdict struct {
	file   fs.FileInfo
	intact bool
}

func newVerdicts(log *slog.Logger) *verdicts {
	return &verdicts{log: log, slots: make(chan struct{}, checksAtOnce), of: map[blob.Hash]verdict{}}
}

// known is what was found of a file as it is now.
func (v *verdicts) known(h blob.Hash, now fs.FileInfo) (intact, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, ok := v.of[h]
	if !ok || !os.SameFile(was.file, now) || was.file.Size() != now.Size() || !was.file.ModTime().Equal(now.ModTime()) {
		return false, false
	}
	return was.intact, true
}

func (v *verdicts) note(h blob.Hash, file fs.FileInfo, intact bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.of) >= mostVerdicts {
		for some := range v.of { // any: it is compared again
			delete(v.of, some)
			break
		}
	}
	v.of[h] = verdict{file, intact}
}

// check fails unless a file is the blob of its name. It reads from where the file stands.
func (v *verdicts) check(ctx context.Context, h blob.Hash, f io.ReadSeeker, info fs.FileInfo) error {
	intact, known := v.known(h, info)
	if !known {
		select {
		case v.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-v.slots }()
		if intact, known = v.known(h, info); !known { // nobody else has looked meanwhile
			var err error
			if intact, err = v.compare(ctx, h, f, info); err != nil {
				return err
			}
		}
	}
	if !intact {
		return model.Errorf(model.CodeDamaged, "the file %s is damaged on the server: it is not served", h).
			WithHint("Send it again, or restore it from a backup; kymogram data verify names all damaged files.")
	}
	return nil
}

func (v *verdicts) compare(ctx context.Context, h blob.Hash, f io.ReadSeeker, info fs.FileInfo) (intact bool, err error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, blob.Until(ctx, f)); err != nil {
		return false, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	got := blob.Hash(sum.Sum(nil))
	v.note(h, info, got == h)
	if got != h {
		v.mu.Lock()
		v.broken++
		v.mu.Unlock()
		v.log.ErrorContext(ctx, "a file is damaged: it is not served", "blob", h, "bytes", info.Size(), "sha256", got)
	}
	return got == h, nil
}

// Damaged is how many files were found damaged when they were read, since the start.
func (s *Store) Damaged() uint64 {
	s.verdicts.mu.Lock()
	defer s.verdicts.mu.Unlock()
	return s.verdicts.broken
}

// isDamaged reports whether a file is known to be damaged, so that it can be sent again.
func (s *Store) isDamaged(h blob.Hash, info fs.FileInfo) bool {
	intact, known := s.verdicts.known(h, info)
	return known && !intact
}
