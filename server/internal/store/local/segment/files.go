package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
)

// Files are the segments of a data folder.
type Files struct {
	fs       wal.FS
	dir      string
	logger   *slog.Logger
	damage   *DamageList
	decoders sync.Pool // of *codec.Decoder
	next     atomic.Uint64
	listing  *listing

	mu   sync.RWMutex
	list []*File // live, guarded by mu
	life Life    // guarded by mu

	// gone are replaced segments whose files a crash may bring back; one merge at a
	// time uses it.
	gone []uint64

	// unknown is set when the state of a segment on disk is unknown: no writes until
	// the folder is opened again.
	unknown atomic.Pointer[error]
}

// NewFiles are the segments in a folder, which load reads. Their list lies there and in
// the other folders.
func NewFiles(fs wal.FS, dirs []string, logger *slog.Logger, damage *DamageList) *Files {
	f := &Files{fs: fs, dir: dirs[0], logger: logger, damage: damage, listing: &listing{fs: fs, dirs: dirs, logger: logger, ids: map[uint64]bool{}}}
	f.next.Store(1)
	return f
}

// poison refuses writes from now on.
func (f *Files) poison(err error) error {
	f.logger.Error("the store takes no more writes until it is opened again", "err", err)
	f.unknown.CompareAndSwap(nil, &err)
	return err
}

// Stuck is why the store takes no writes, nil when it does.
func (f *Files) Stuck() error {
	if err := f.unknown.Load(); err != nil {
		return fmt.Errorf("%w: %w", wal.ErrPoisoned, *err)
	}
	return nil
}

func (f *Files) decoder() *codec.Decoder {
	if d, ok := f.decoders.Get().(*codec.Decoder); ok {
		return d
	}
	return codec.NewDecoder()
}

// Over is a segment in an open file whose directory is not read yet.
func (f *Files) Over(id uint64, file wal.File) *File {
	return &File{ID: id, files: f, file: file}
}

// open reads the directory of a segment.
func (f *Files) open(id uint64) (*File, []Head, error) {
	file, err := f.fs.Open(filepath.Join(f.dir, Name(id)), false)
	if err != nil {
		return nil, nil, err
	}
	s := f.Over(id, file)
	heads, err := s.ReadDirectory()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return s, heads, nil
}

// Add makes a new segment live.
func (f *Files) Add(s *File) {
	f.listing.change(s.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, s)
}

// Live lists the segments that hold what is stored.
func (f *Files) Live() []*File {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return slices.Clone(f.list)
}

// Replace makes a merged segment live in place of its inputs.
func (f *Files) Replace(old []*File, s *File) {
	f.listing.change(s.ID, old...)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(slices.Clone(f.list), func(x *File) bool { return slices.Contains(old, x) })
	f.list = append(f.list, s)
}

// ReplacedBy lists what a merge of the inputs must say that it replaces: them, and
// what earlier merges replaced and a crash may bring back.
func (f *Files) ReplacedBy(inputs []*File) []uint64 {
	ids := slices.Clone(f.gone)
	for _, s := range inputs {
		ids = append(ids, s.ID)
	}
	return ids
}

// Retire unlinks what was replaced; reads that began before still hold the files
// open, and the garbage collector closes them. Until the folder is synced they may
// come back after a crash, so the next merge names them, too.
func (f *Files) Retire(ids []uint64) (failed error) {
	f.gone = ids
	for _, id := range ids {
		err := f.fs.Remove(filepath.Join(f.dir, Name(id)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("remove replaced segment: %w", err))
		}
	}
	if failed == nil {
		failed = f.fs.SyncDir(f.dir)
	}
	if failed == nil {
		f.gone = nil
	}
	return failed
}

// Opened is a segment and what its directory says of runs.
type Opened struct {
	*File
	Heads []Head
}

// Load reads the directory of every segment and returns those that can be read and
// those that cannot. What a merge had replaced when a crash came is removed.
func (f *Files) Load() (live []Opened, damaged []uint64, err error) {
	if err := f.fs.MkdirAll(f.dir); err != nil {
		return nil, nil, fmt.Errorf("make segment folder: %w", err)
	}
	names, err := f.fs.List(f.dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list segments: %w", err)
	}
	var found []Opened
	for _, name := range names {
		if strings.HasSuffix(name, suffix+".tmp") {
			f.removeFile(name)
		}
		id, ok := ParseName(name)
		if !ok {
			continue
		}
		f.next.Store(max(f.next.Load(), id+1))
		s, heads, err := f.open(id)
		if err := Unread(err, filepath.Join(f.dir, name)); err != nil {
			return nil, nil, err
		}
		if err != nil {
			f.damage.Report(model.RunID{}, "segment", err, "file", name)
			damaged = append(damaged, id)
			continue
		}
		found = append(found, Opened{s, heads})
	}
	live = f.dropReplaced(found)
	damaged = slices.DeleteFunc(damaged, func(id uint64) bool { // a merge has what was in it
		return slices.ContainsFunc(live, func(s Opened) bool { return slices.Contains(s.replaces, id) })
	})
	for _, s := range live {
		f.list = append(f.list, s.File)
	}
	f.life = LifeOf(f.list)
	f.compareList(live, damaged)
	return live, damaged, nil
}

// compareList reports the segments that are gone. They stay on the list, so that
// verify and every start name them.
func (f *Files) compareList(live []Opened, damaged []uint64) {
	present := slices.Clone(damaged)
	for _, s := range live {
		present = append(present, s.ID)
	}
	lists := Listed(f.fs, f.listing.dirs...)
	for _, name := range lists.Damaged {
		f.damage.Report(model.RunID{}, "segment", lists.Err(), "file", name)
	}
	lost := slices.DeleteFunc(lists.IDs, func(id uint64) bool {
		return slices.Contains(present, id) || slices.ContainsFunc(live, func(s Opened) bool { return s.Replaces(id) })
	})
	for _, id := range lost {
		f.next.Store(max(f.next.Load(), id+1))
		f.damage.Report(model.RunID{}, "segment", ErrMissing, "file", Name(id))
	}
	for _, id := range append(present, lost...) {
		f.listing.ids[id] = true
	}
	f.listing.settle()
}

// removeFile removes what is not needed any more; what stays is tried again at
// the next start.
func (f *Files) removeFile(name string) {
	if err := f.fs.Remove(filepath.Join(f.dir, name)); err != nil {
		f.logger.Warn("file that is not needed any more is not removed", "file", name, "err", err)
	}
}

// dropReplaced removes what a merge had replaced when a crash came.
func (f *Files) dropReplaced(found []Opened) (live []Opened) {
	replaced := map[uint64]bool{}
	for _, s := range found {
		for _, id := range s.replaces {
			replaced[id] = true
		}
	}
	for _, s := range found {
		if !replaced[s.ID] {
			live = append(live, s)
			continue
		}
		if err := s.Close(); err != nil {
			f.logger.Warn("close segment", "err", err)
		}
		f.removeFile(Name(s.ID))
		f.gone = append(f.gone, s.ID)
	}
	return live
}

// SetAside keeps a damaged segment out of later merges; false when the error is
// another one.
func (f *Files) SetAside(err error, inputs []*File) bool {
	var at *BlockError
	if !errors.As(err, &at) {
		return false
	}
	for _, s := range inputs {
		if s.ID == at.Segment {
			s.Keep.Store(true)
			f.damage.Report(model.RunID{}, "segment", err)
			return true
		}
	}
	return false
}
