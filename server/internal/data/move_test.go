package data_test

import (
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/kymogram/kymogram/internal/model"
	points "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// shared is a store, and moves of folders there.
type shared struct {
	testing.TB
	database *server.Server
	store    string
	catalog  string
	schema   string
	blob     string
}

func newShared(t testing.TB) *shared {
	t.Helper()
	ch, pg := points.Any(t), server.Any(t)
	s := &shared{TB: t, database: pg, store: "clickhouse://" + strings.Join(ch.Addrs, ",") + "/" + ch.Database(t), catalog: pg.URL(t)}
	_, s.schema, _ = strings.Cut(s.catalog, "search_path=")
	return s
}

func (s *shared) move(folder data.Folder, back bool) (*data.Moved, error) {
	return folder.Move(s.Context(), data.Move{
		Migration: data.Migration{Catalog: s.catalog, Back: back, Log: slog.New(slog.DiscardHandler), Shown: io.Discard}, Store: s.store, Blob: s.blob,
		Secret: func() ([]byte, error) { return blob.Secret(filepath.Join(string(folder), data.BlobKeyFile)) },
		Owners: func(secret []byte) (data.Owners, error) {
			sum := sha256.Sum256(secret)
			return data.Owners{Points: sum[:], Catalog: "catalog", Bucket: "bucket"}, nil
		},
	})
}

func (s *shared) must(folder data.Folder, back bool) *data.Moved {
	s.Helper()
	moved, err := s.move(folder, back)
	if err != nil {
		s.Fatalf("back %v: %v", back, err)
	}
	return moved
}

func (s *shared) refused(folder data.Folder, back bool, code model.Code, words string) {
	s.Helper()
	_, err := s.move(folder, back)
	var e *model.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Message, words) || e.Hint == "" {
		s.Errorf("%v, want %s with %q and a hint", err, code, words)
	}
}

// served says what may be served: the folder by itself, the store, both, or none.
func (s *shared) served(folder data.Folder) string {
	s.Helper()
	var out []string
	if own, _ := os.Stat(filepath.Join(folder.Store(), "VERSION")); own != nil && folder.StoreElsewhere() == nil {
		out = append(out, "folder")
	}
	if _, lock, err := folder.Join("the store"); err == nil {
		_ = lock.Close()
		if s.database.Do(s, "SELECT moving IS NULL FROM "+s.schema+".ledger_store") == "t\n" {
			out = append(out, "store")
		}
	}
	return strings.Join(out, " and ")
}

// TestMovePoints goes there and back, and puts a folder into the states between two steps, which
// kills seldom meet: at most one of folder and store is served, and the same command finishes.
func TestMovePoints(t *testing.T) {
	t.Parallel()
	s := newShared(t)
	folder := data.Folder(t.TempDir())
	many(t, folder, 3)
	s.refused(data.Folder(t.TempDir()), false, model.CodeNotFound, "it has no points")
	e, err := local.Open(t.Context(), local.Config{Dir: folder.Store(), Marks: folder.Marks()})
	if err != nil {
		t.Fatal(err)
	}
	run, w := model.RunID{1}, model.WriterID{2}
	write := func(seq uint64) {
		t.Helper()
		b := &model.Batch{Run: run, Writer: w, Attempt: 1, First: seq, Last: seq, Updates: []model.Update{{Op: model.OpAddTags, Seq: seq, Tags: []string{"a"}}}, Groups: []model.RowGroup{{
			TimeNs: []int64{int64(seq)}, Seq: []uint64{seq}, Columns: []model.Column{{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat, Floats: []float64{1}}},
		}}}
		if _, err := e.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.PutOpen(t.Context(), run, model.Attempt{Number: 1}, w, nil); err != nil {
		t.Fatal(err)
	}
	write(1)
	if moved := s.must(folder, false); moved.Final || moved.Copied.Points != 1 || moved.Copied.Updates != 0 || s.served(folder) != "folder" {
		t.Errorf("beside a server: %+v, and %s is served", moved, s.served(folder))
	}
	write(2)
	s.refused(data.Folder(filepath.Join(t.TempDir(), "new")), true, model.CodeConflict, "are on their way from a data folder")
	other := data.Folder(t.TempDir())
	if o, err := local.Open(t.Context(), local.Config{Dir: other.Store(), Marks: other.Marks()}); err != nil || o.Close() != nil {
		t.Fatal(err)
	}
	s.refused(other, false, model.CodeConflict, "the store of another data folder")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	moved := s.must(folder, false)
	if !moved.Final || moved.Copied.Points != 1 || moved.Copied.Updates != 2 || moved.Catalog == nil || s.served(folder) != "store" {
		t.Fatalf("%+v, and %q is served", moved, s.served(folder))
	}
	for name, undo := range map[string]func() error{
		"store released": func() error { return nil },
		"points aside":   func() error { return os.RemoveAll(folder.Store()) },
		"place noted": func() error {
			return errors.Join(os.RemoveAll(folder.Store()), os.Rename(moved.Aside, folder.Store()))
		},
	} {
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		if name != "store released" {
			s.database.Do(t, "UPDATE "+s.schema+".ledger_store SET moving = 'are on their way from a data folder'")
			if got := s.served(folder); got != "" {
				t.Errorf("%s: %s is served", name, got)
			}
		}
		if again := s.must(folder, false); s.served(folder) != "store" {
			t.Errorf("%s: %+v, and %q is served", name, again, s.served(folder))
		} else if again.Aside != "" {
			moved.Aside = again.Aside
		}
	}
	for _, to := range []data.Folder{folder, folder} {
		back := s.must(to, true)
		if s.served(to) != "folder" {
			t.Errorf("%+v, and %q is served", back, s.served(to))
		}
		if survey, err := to.Survey(t.Context(), true, io.Discard); err != nil || survey.Store.Points != 2 || len(survey.Store.Damage) > 0 {
			t.Errorf("%+v, %v", survey, err)
		}
	}
	e, err = local.Open(t.Context(), local.Config{Dir: folder.Store(), Marks: folder.Marks()})
	if err != nil {
		t.Fatal(err)
	}
	pending := 0
	for range e.PendingMeta(t.Context()) {
		pending++
	}
	if mark, err := e.Mark(t.Context(), w); err != nil || mark != 2 || pending != 2 {
		t.Errorf("the mark is %d, %v, and %d updates wait", mark, err, pending)
	}
	write(3)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if moved := s.must(folder, false); moved.Copied.Points != 1 || s.served(folder) != "store" {
		t.Errorf("moved again, %+v, and %q is served", moved, s.served(folder))
	}
	store, err := clickhouse.Open(t.Context(), clickhouse.Config{Points: s.store, Ledger: s.catalog, Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if stats, err := store.RunStats(t.Context(), run); err != nil || stats.Stored != 3 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestMoveFiles: files go into the bucket, each once, and out of the folder with the last move.
func TestMoveFiles(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := newShared(t)
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(service.Close)
	s.blob = "s3://files/team?endpoint=" + service.URL
	folder := empty(t)
	files, err := dir.Open(folder.Blobs())
	if err != nil {
		t.Fatal(err)
	}
	hash, _, _, err := files.Keep(t.Context(), strings.NewReader("a video"), 100)
	if err = errors.Join(err, files.Close()); err != nil {
		t.Fatal(err)
	}
	lock, err := folder.Lock()
	if err != nil {
		t.Fatal(err)
	}
	for _, final := range []bool{false, true} {
		if final {
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if moved := s.must(folder, false); moved.Final != final || moved.Files == nil || moved.Files.Files != 1 || (moved.Files.Aside != "") != final {
			t.Errorf("%+v, %+v", moved, moved.Files)
		}
	}
	place, err := s3.Parse(s.blob)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := s3.Open(t.Context(), place, filepath.Join(t.TempDir(), "tmp"), "bucket")
	if err != nil {
		t.Fatal(err)
	}
	r, err := bucket.Open(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "a video" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(folder.Blobs()); err == nil {
		t.Error("the folder has files, which a server with a bucket refuses")
	}
}
