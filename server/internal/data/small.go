package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// Small is a small file with which no server starts, or a part of it does not work.
type Small struct {
	File   string `json:"file"`
	Fault  string `json:"fault"`
	Remedy string `json:"remedy"`
	// Mends is what a repair does about it, "" for nothing.
	Mends string `json:"mends,omitempty"`
	mend  func() error
}

// small names what is wrong with the small files.
func (f Folder) small(ctx context.Context) ([]*Small, error) {
	var found []*Small
	for _, look := range []func(context.Context) (*Small, error){f.version, f.marks, f.adminKey, f.logKey} {
		s, err := look(ctx)
		if err != nil {
			return nil, err
		}
		if s != nil {
			found = append(found, s)
		}
	}
	return found, nil
}

// version is that of the store. It follows from the other files: where this program can
// read them all, they are of its version.
func (f Folder) version(ctx context.Context) (*Small, error) {
	raw, err := os.ReadFile(filepath.Join(f.Store(), "VERSION"))
	if errors.Is(err, fs.ErrNotExist) { // the next start writes it
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(strings.Trim(string(raw), "\x00"))
	if v, err := strconv.Atoi(text); text == "" || err == nil && v <= local.Version {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	s := &Small{
		File: filepath.Join(StoreFolder, "VERSION"), Fault: fmt.Sprintf("it says %q, and this program knows up to %d", text, local.Version),
		Remedy: "use the newer kymogram that wrote it, or write the version of a backup into it",
	}
	store, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if all, err := store.Inspect(ctx, true, nil); err != nil || len(all.Damage) > 0 {
		return s, err
	}
	s.Mends = fmt.Sprintf("%d is written into it, since every other file is one that version %[1]d reads", local.Version)
	s.mend = func() error { return local.WriteVersion(wal.OS{}, f.Store()) }
	return s, nil
}

// marks must be a folder.
func (f Folder) marks(context.Context) (*Small, error) {
	if info, err := os.Stat(f.Marks()); err != nil || info.IsDir() {
		return nil, nil //nolint:nilnil,nilerr // nothing is wrong: the next start makes it
	}
	return &Small{
		File: MarksFolder, Fault: "it is a file, and must be a folder", Remedy: "move it away; the next start makes the folder",
		Mends: "it is moved aside, and the next start makes the folder", mend: func() error { return setAside(f.Marks()) },
	}, nil
}

// lists are those of the segments that are damaged and have another copy.
func (f Folder) lists(ctx context.Context) (found []*Small, err error) {
	store, err := local.OpenFolder(ctx, wal.Looking{}, f.Store(), f.Marks())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	all := store.Lists()
	for _, name := range all.Damaged {
		short, _ := filepath.Rel(string(f), name)
		s := &Small{File: short, Fault: "the list of segments is damaged", Remedy: "the next start writes it anew, by the segments that are there"}
		if all.Mends() {
			s.Mends, s.mend = "its other copy is written there", func() error { return all.Mend(wal.OS{}) }
		}
		found = append(found, s)
	}
	return found, nil
}

// silent names marks that say nothing, since they are damaged.
func (f Folder) silent() (notes []string) {
	say := func(path, about string) {
		notes = append(notes, fmt.Sprintf("%s is damaged and says nothing: %s would not be noticed. Nothing is lost with it, and the next start writes it anew",
			filepath.Join(MarksFolder, filepath.Base(path)), about))
	}
	for path, about := range map[string]string{f.CatalogMark(): "older copies of catalog.db", f.StateMark(): "older copies of state.db"} {
		if mirror.DamagedMark(path) {
			say(path, about)
		}
	}
	tip, look := filepath.Join(f.Marks(), "TIP"), wal.Looking{}
	// A server that took no write yet has an empty one.
	if info, err := os.Stat(tip); err == nil && (wal.DamagedTip(look, f.Marks()) || info.Size() == 0 && wal.ReadTip(look, filepath.Join(f.Store(), "wal")) > 0) {
		say(tip, "a log that is lost together with its own copy")
	}
	slices.Sort(notes)
	return notes
}

// adminKey compares the file of the first key with the catalog, which has its hash.
func (f Folder) adminKey(ctx context.Context) (*Small, error) {
	path := filepath.Join(string(f), AdminKeyFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing is wrong
	}
	if err != nil {
		return nil, err
	}
	s := &Small{
		File: AdminKeyFile, Fault: "it does not hold a key",
		Remedy: "restore it from a backup",
		Mends:  fmt.Sprintf("it is moved aside; the keys of the catalog stay as they are, and `kymogram key create --data %s --name admin --scope admin` makes another", string(f)),
		mend:   func() error { return setAside(path) },
	}
	secret := strings.TrimSpace(string(raw))
	if _, err := hex.DecodeString(secret); err != nil || len(secret) != 40 || strings.ToLower(secret) != secret {
		return s, nil
	}
	known, others, err := sqlite.KnowsKey(ctx, f.Catalog(), sha256.Sum256([]byte(secret)))
	if known || !others || err != nil {
		return nil, nil //nolint:nilnil,nilerr // a damaged catalog is named elsewhere, and may know it after its repair
	}
	s.Fault = "it holds a key that the catalog does not know"
	return s, nil
}

// String is what verify says of it.
func (s *Small) String() string {
	text := fmt.Sprintf("%s: %s; %s", s.File, s.Fault, s.Remedy)
	if s.Mends != "" {
		text += ", or run `kymogram data repair`"
	}
	return text
}

// setAside renames a file, for its owner to look at.
func setAside(path string) error {
	return os.Rename(path, path+".damaged-"+time.Now().UTC().Format("20060102T150405"))
}

// logKey compares the key of the Merkle log with the heads that it signed.
func (f Folder) logKey(ctx context.Context) (*Small, error) {
	fault, err := statelog.CompareKey(ctx, f.States(), filepath.Join(string(f), LogKeyFile))
	if fault == "" || err != nil {
		return nil, err
	}
	return &Small{File: LogKeyFile, Fault: fault, Remedy: "restore it from a backup; start without it only if witnesses shall see a new log"}, nil
}
