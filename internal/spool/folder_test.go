package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

func TestFolderIsPrivate(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "a", "b")
	f, err := OpenFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(link); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("a link was taken: %v", err)
	}
	writeFile(t, filepath.Join(base, "file"), nil)
	if _, err := OpenFolder(filepath.Join(base, "file")); err == nil {
		t.Error("a file was taken")
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(base, "foreign")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFolder(foreign); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("a stranger's folder was taken: %v", err)
		}
	}
}

func TestResolve(t *testing.T) {
	base := t.TempDir()
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	f, err := Resolve(env(map[string]string{"KYMOGRAM_SPOOL_DIR": base + "/s", "HOME": base}))
	if err != nil || f.Path != base+"/s" {
		t.Errorf("%v, %v", f, err)
	}
	f, err = Resolve(env(map[string]string{"XDG_STATE_HOME": base + "/state"}))
	if err != nil || !strings.HasPrefix(f.Path, base+"/state/kymogram/spool/") {
		t.Errorf("%v, %v", f, err)
	}
	f, err = Resolve(env(map[string]string{"HOME": base + "/home"}))
	if err != nil || !strings.HasPrefix(f.Path, base+"/home/.local/state/kymogram/spool/") {
		t.Errorf("%v, %v", f, err)
	}
	writeFile(t, base+"/file", nil)
	f, err = Resolve(env(map[string]string{"KYMOGRAM_SPOOL_DIR": base + "/file", "HOME": base + "/home"}))
	if err != nil || len(f.Passed) != 1 {
		t.Errorf("a folder that cannot be made: %v, %v", f, err)
	}
}

// Between the lock and the name of the holder a reader sees nobody.
func TestAFolderThatIsBeingTaken(t *testing.T) {
	f := testFolder(t)
	lock, ok, err := tryLock(filepath.Join(f.Path, "agent.lock"))
	if err != nil || !ok {
		t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	if h, live, err := f.Held(); err != nil || live || h != (Holder{}) {
		t.Errorf("held by %v %v %v", h, live, err)
	}
}

func TestHolders(t *testing.T) {
	f := testFolder(t)
	agent := Holder{PID: 1, Version: "1", Protocol: 1, Kind: KindAgent}
	hold, err := f.Take(agent)
	if err != nil || hold == nil {
		t.Fatal(err)
	}
	if again, err := f.Take(Holder{PID: 2}); again != nil || err != nil {
		t.Fatalf("taken twice: %v", err)
	}
	if h, live, err := f.Held(); err != nil || !live || h != agent {
		t.Errorf("held by %v %v %v", h, live, err)
	}
	tests := []struct {
		asks Holder
		gets bool
	}{
		{Holder{PID: 2, Protocol: 1, Kind: KindAgent}, false},
		{Holder{PID: 2, Protocol: 1, Kind: KindProcess}, false},
		{Holder{PID: 2, Protocol: 2, Kind: KindAgent}, true},
		{Holder{PID: 2, Protocol: 1, Kind: KindPerson}, true},
		{Holder{PID: 2, Protocol: 1, Kind: KindSync}, true},
	}
	for _, tt := range tests {
		if err := f.Ask(tt.asks); err != nil {
			t.Fatal(err)
		}
		if hold.Asked() != tt.gets {
			t.Errorf("%+v: asked %v", tt.asks, !tt.gets)
		}
	}
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
	if _, live, _ := f.Held(); live {
		t.Error("still held")
	}
	person, err := f.Take(Holder{PID: 2, Protocol: 1, Kind: KindPerson})
	if err != nil || person == nil {
		t.Fatal(err)
	}
	if err := f.Ask(Holder{PID: 3, Protocol: 1, Kind: KindSync}); err != nil || person.Asked() {
		t.Errorf("a sync took over from a person: %v", err)
	}
	if err := person.Release(); err != nil {
		t.Fatal(err)
	}
	sync, err := f.Take(Holder{PID: 4, Protocol: 1, Kind: KindSync})
	if err != nil || sync == nil || sync.Asked() {
		t.Fatalf("the wish of a program that is gone is still heard: %v", err)
	}
	for kind, gets := range map[HolderKind]bool{KindSync: false, KindAgent: false, KindPerson: true} {
		if err := f.Ask(Holder{PID: 5, Protocol: 1, Kind: kind}); err != nil || sync.Asked() != gets {
			t.Errorf("%s asks a sync: %v, %v", kind, !gets, err)
		}
	}
}

func TestKeys(t *testing.T) {
	f := testFolder(t)
	for _, kv := range [][2]string{{"http://a:1", "k1"}, {"http://b:2", "k2"}, {"http://a:1", "k3"}} {
		if err := f.SetKey(kv[0], kv[1]); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := f.Keys()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Keys{"http://a:1": "k3", "http://b:2": "k2"}, keys); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(f.Path, "credentials"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestStatusPage(t *testing.T) {
	w := testWriter(t, testFolder(t), 1, WriterOptions{})
	s, err := OpenStatus(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(100, 5)
	want := Page{HeartbeatNs: now.UnixNano(), Mark: 7, Acked: 1, Refused: 2, Batches: 3, Connections: 4, Errors: 5, State: StateWaiting, Error: strings.Repeat("é", 512), Answer: []byte(`{"run":"x"}`)}
	for _, err := range []error{s.Heartbeat(now), s.SetMark(7), s.SetCounts(want), s.SetState(StateWaiting, strings.Repeat("é", 600)), s.SetAnswer(want.Answer)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := w.Status().Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !got.Delivering(now.Add(2*time.Second)) || got.Delivering(now.Add(4*time.Second)) || got.Delivering(now.Add(-time.Hour)) {
		t.Error("the heartbeat is young for 3 s")
	}
}

// TestNoFolder: the error names every folder and what to do.
func TestNoFolder(t *testing.T) {
	env := map[string]string{"KYMOGRAM_SPOOL_DIR": filepath.Join(t.TempDir(), "own"), "HOME": t.TempDir(), "TMPDIR": t.TempDir()}
	getenv := func(name string) string { return env[name] }
	none := errors.New("no room at all")
	_, err := resolve(getenv, func(f *Folder) error { return fmt.Errorf("%s: %w", f.Path, none) })
	var e *model.Error
	if !errors.As(err, &e) || e.Code != model.CodeUnavailable || !strings.Contains(e.Hint, "KYMOGRAM_SPOOL_DIR") {
		t.Fatalf("%v", err)
	}
	for _, path := range []string{env["KYMOGRAM_SPOOL_DIR"], filepath.Join(env["HOME"], ".local", "state"), "/dev/shm/kymogram-", env["TMPDIR"]} {
		if !strings.Contains(e.Message, path) {
			t.Errorf("%s is not named in %s", path, e.Message)
		}
	}
}

func TestRemoveKeepsDamage(t *testing.T) {
	f := testFolder(t)
	w := testWriter(t, f, 1, WriterOptions{})
	if err := f.Sweep(time.Now()); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(w.dir, "00000009.seg.bad"), []byte("x"))
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(w.ID); err != nil {
		t.Fatal(err)
	}
	if ids, _ := f.Writers(); len(ids) != 0 {
		t.Errorf("left %v", ids)
	}
	if _, err := os.Stat(filepath.Join(f.Path, "rejected", w.ID.String()+"-00000009.seg.bad")); err != nil {
		t.Error(err)
	}
	if err := f.Reject(w.ID, []Rejected{{Seq: 3, Code: model.CodeLimit, Message: "m", Record: []byte("abc")}}); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(f.Path, "rejected", w.ID.String()+".jsonl"))
	if err != nil || string(doc) != `{"seq":3,"code":"limit_exceeded","message":"m","record":"YWJj"}`+"\n" {
		t.Errorf("%s %v", doc, err)
	}
}

// TestTakeThatFailsHoldsNothing: else nobody could deliver the folder any more.
func TestTakeThatFailsHoldsNothing(t *testing.T) {
	folder, err := OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	wish := filepath.Join(folder.Path, "agent.takeover", "not-empty")
	if err := os.MkdirAll(wish, 0o700); err != nil {
		t.Fatal(err)
	}
	if hold, err := folder.Take(Holder{Kind: KindAgent}); hold != nil || err == nil {
		t.Errorf("%v %v", hold, err)
	}
	if _, held, err := folder.Held(); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
}

// TestFolderOfAllUsers: one like /tmp is not closed to the others.
func TestFolderOfAllUsers(t *testing.T) {
	path := t.TempDir()
	if err := os.Chmod(path, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	before := ofAll
	ofAll = append(ofAll, path)
	defer func() { ofAll = before }()
	if _, err := OpenFolder(path); err == nil || !strings.Contains(err.Error(), "such as "+path+"/kymogram") {
		t.Errorf("%v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := OpenFolder(filepath.Join(path, "kymogram")); err != nil {
		t.Error(err)
	}
	ofAll = before // a container's --tmpfs /spool is sticky, too, and is nobody else's
	if _, err := OpenFolder(path); err != nil {
		t.Error(err)
	}
}
