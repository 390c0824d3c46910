package data_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// A folder of ours is made private; one of another user that others may enter is refused.
func TestClaimMakesTheFolderPrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Chmod(folder, 0o755), data.Claim(folder)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", info.Mode(), err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	if err := errors.Join(os.Chmod(folder, 0o750), os.Chown(folder, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	var e *model.Error
	if err := data.Claim(folder); !errors.As(err, &e) || !strings.Contains(e.Hint, "chmod 700") {
		t.Errorf("another user's open folder: %v", err)
	}
	if err := errors.Join(os.Chmod(folder, 0o700), data.Claim(folder)); err != nil {
		t.Errorf("another user's private folder: %v", err)
	}
}

// empty makes the folder of a server that nobody used.
func empty(t *testing.T) data.Folder {
	t.Helper()
	folder := data.Folder(filepath.Join(t.TempDir(), "data"))
	if err := data.Claim(string(folder)); err != nil {
		t.Fatal(err)
	}
	engine, err := local.Open(t.Context(), local.Config{Dir: folder.Store()})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), folder.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(engine.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestSurveyAndCompact(t *testing.T) {
	folder := empty(t)
	for _, whole := range []bool{false, true} {
		s, err := folder.Survey(t.Context(), whole, io.Discard)
		if err != nil || !s.OK || s.Store.Points != 0 || s.Data != string(folder) {
			t.Fatalf("%+v, %v", s, err)
		}
		var out strings.Builder
		if err := s.Print(&out); err != nil || strings.Contains(out.String(), "every byte is as it was written") != whole {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
	if done, err := folder.Compact(t.Context(), slog.New(slog.DiscardHandler), io.Discard); err != nil || done.After == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	none := data.Folder(t.TempDir())
	if _, err := none.Compact(context.Background(), slog.New(slog.DiscardHandler), io.Discard); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(string(none)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestFaultsHaveARemedy(t *testing.T) {
	folder := empty(t)
	if err := os.WriteFile(folder.Catalog(), []byte(strings.Repeat("noise", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || s.OK || len(s.Catalog.Damage) != 1 {
		t.Errorf("noise: %+v, %v", s, err)
	}
	if err := os.RemoveAll(folder.Catalog() + "-mirror"); err != nil {
		t.Fatal(err)
	}
	if r, err := folder.Repair(t.Context(), true, slog.New(slog.DiscardHandler), io.Discard); err != nil || len(r.Catalog.Lost) == 0 {
		t.Errorf("noise without a mirror: %+v, %v", r, err)
	}
	known := model.Errorf(model.CodeConflict, "known")
	other := errors.New("other")
	for err, code := range map[error]model.Code{
		known: model.CodeConflict, other: model.CodeInternal,
		syscall.ENOSPC: model.CodeDiskFull, syscall.EROFS: model.CodePermission,
	} {
		if got := data.Explain("folder", err); model.CodeOf(got) != code {
			t.Errorf("%v: %v", err, got)
		}
	}
	if data.Explain("folder", nil) != nil {
		t.Error("no fault")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := data.Claim(filepath.Join(file, "below")); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("%v", err)
	}
}

// TestRepair: without do nothing changes; with it the catalog is whole again, and
// what was damaged is kept.
func TestRepair(t *testing.T) {
	folder := empty(t)
	log := slog.New(slog.DiscardHandler)
	look := func(do bool) *data.Repaired {
		t.Helper()
		r, err := folder.Repair(t.Context(), do, log, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := r.Print(&out); err != nil || strings.Contains(out.String(), "add --yes") != (r.Needed && !do) {
			t.Errorf("%v\n%s", err, out.String())
		}
		return r
	}
	if r := look(true); r.Needed {
		t.Errorf("a whole folder: %+v", r.Catalog)
	}
	noise := []byte(strings.Repeat("noise", 1000))
	if err := os.WriteFile(folder.Catalog(), noise, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := look(false); !r.Needed || r.Catalog.Rebuilt == "" {
		t.Errorf("%+v", r.Catalog)
	}
	if r := look(true); !r.Needed || len(r.Catalog.SetAside) != 1 {
		t.Errorf("%+v", r.Catalog)
	} else if kept, err := os.ReadFile(r.Catalog.SetAside[0]); err != nil || string(kept) != string(noise) {
		t.Errorf("what was damaged is not kept: %v", err)
	}
	if s, err := folder.Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
		t.Errorf("%+v, %v", s, err)
	}
	engine, err := local.Open(t.Context(), local.Config{Dir: folder.Store()})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if _, err := folder.Repair(t.Context(), false, log, io.Discard); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("while a server runs: %v", err)
	}
}

// TestSmallFiles: a small file with which no server starts is named by verify and by
// repair. With do repair mends what follows from other files, and says what does not.
func TestSmallFiles(t *testing.T) {
	write := func(name, text string) func(*testing.T, data.Folder) {
		return func(t *testing.T, f data.Folder) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(string(f), name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	other, newer := strings.Repeat("ab", 20), strconv.Itoa(local.Version+1)
	says := fmt.Sprintf("says %q", newer)
	for name, test := range map[string]struct {
		file, fault string
		harm        func(*testing.T, data.Folder)
		mends       bool
	}{
		"a bit of VERSION":     {"store/VERSION", says, write("store/VERSION", newer+"\n"), true},
		"noise behind VERSION": {"store/VERSION", "up to " + strconv.Itoa(local.Version), write("store/VERSION", "2\nx"), true},
		"a newer format": {"store/VERSION", says, func(t *testing.T, f data.Folder) {
			write("store/VERSION", newer+"\n")(t, f)
			write("store/segments/0000000000000001.kgs", strings.Repeat("of a newer version ", 99))(t, f)
		}, false},
		"no key":                 {"admin.key", "does not hold a key", write("admin.key", "noise"), true},
		"a key of somebody else": {"admin.key", "does not know", write("admin.key", other+"\n"), true},
		"the log's key is short": {"log.key", "has 4 bytes", write("log.key", "noon"), false},
		"nothing":                {"", "", func(*testing.T, data.Folder) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			folder := empty(t)
			db, err := sqlite.Open(t.Context(), folder.Catalog())
			if err != nil {
				t.Fatal(err)
			}
			ring := auth.New(db, time.Now, false)
			secret, err := ring.Bootstrap(t.Context(), string(folder), "")
			states, serr := statelog.Open(t.Context(), folder.States(), time.Now)
			if err := errors.Join(err, serr, db.Close()); err != nil {
				t.Fatal(err)
			}
			if err := states.Close(); err != nil {
				t.Fatal(err)
			}
			test.harm(t, folder)
			survey, err := folder.Survey(t.Context(), true, io.Discard)
			if err != nil || survey.OK != (test.file == "") || !strings.Contains(strings.Join(survey.Apart, "\n"), test.fault) {
				t.Errorf("verify: %v, %v", survey.Apart, err)
			}
			repair := func(do bool) *data.Repaired {
				t.Helper()
				r, err := folder.Repair(t.Context(), do, slog.New(slog.DiscardHandler), io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				if err := r.Print(&out); err != nil || !strings.Contains(out.String(), test.fault) {
					t.Errorf("%v\n%s", err, out.String())
				}
				return r
			}
			for _, do := range []bool{false, true} {
				r := repair(do)
				if r.Needed != (test.file != "") || r.Needed && (len(r.Small) != 1 || r.Small[0].File != test.file || (r.Small[0].Mends != "") != test.mends) {
					t.Errorf("repair %v: %+v", do, r.Small)
				}
			}
			survey, err = folder.Survey(t.Context(), true, io.Discard)
			if err != nil || survey.OK != (test.mends || test.file == "") {
				t.Errorf("then verify: %+v, %v", survey.Apart, err)
			}
			// Keys of the catalog stay as they are, and none was made.
			db, err = sqlite.Open(t.Context(), folder.Catalog())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			ring = auth.New(db, time.Now, false)
			keys, err := ring.List(t.Context())
			if err != nil || len(keys) != 1 || keys[0].RevokedNs != 0 {
				t.Errorf("keys %+v, %v", keys, err)
			}
			if _, err := ring.Authenticate(t.Context(), secret); err != nil {
				t.Errorf("the first key: %v", err)
			}
			if test.mends {
				if again, err := ring.Bootstrap(t.Context(), string(folder), ""); err != nil || test.file == "admin.key" && again != "" {
					t.Errorf("the next start: %q, %v", again, err)
				}
			}
		})
	}
}
