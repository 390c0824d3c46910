package uplink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

func box(kind string, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	out := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(append(out, kind...), body...)
}

func fragment(frames uint32, data string) []byte {
	trun := box("trun", make([]byte, 4), binary.BigEndian.AppendUint32(nil, frames))
	return append(box("moof", box("mfhd", make([]byte, 8)), box("traf", box("tfhd", make([]byte, 8)), trun)), box("mdat", []byte(data))...)
}

// A file cut anywhere keeps the fragments that are whole.
func TestWholeFragmentsOfAFileThatWasCut(t *testing.T) {
	head := append(box("ftyp", []byte("iso5")), box("moov", make([]byte, 40))...)
	parts := [][]byte{head, fragment(3, "abc"), fragment(5, "defgh"), fragment(2, "ij")}
	frames := []int64{0, 3, 8, 10}
	file := bytes.Join(parts, nil)
	var ends []int
	for at, i := 0, 0; i < len(parts); i++ {
		at += len(parts[i])
		ends = append(ends, at)
	}
	for cut := range len(file) + 1 {
		var wantSize, wantFrames int64
		for i, end := range ends {
			if i > 0 && cut >= end {
				wantSize, wantFrames = int64(end), frames[i]
			}
		}
		size, n, err := wholeFragments(bytes.NewReader(file[:cut]), int64(cut))
		if err != nil || size != wantSize || n != wantFrames {
			t.Fatalf("cut at %d: %d bytes, %d frames, %v; want %d and %d", cut, size, n, err, wantSize, wantFrames)
		}
	}
}

func FuzzWholeFragments(f *testing.F) {
	f.Add(append(box("moov"), fragment(3, "abc")...))
	f.Add(append(binary.BigEndian.AppendUint64(append([]byte{0, 0, 0, 1}, "mdat"...), 1<<63), 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		size, frames, err := wholeFragments(bytes.NewReader(data), int64(len(data)))
		if err != nil || size < 0 || size > int64(len(data)) || frames < 0 || size == 0 != (frames == 0) {
			t.Fatalf("%d bytes, %d frames, %v of %d", size, frames, err, len(data))
		}
	})
}

// fileServer takes blobs and records, and fails as often as it is told.
type fileServer struct {
	blobs   map[string]string
	parts   map[string]string
	records map[string]model.Rendering
	mu      sync.Mutex
	during  func() // a request
	uploads []int  // bytes of those that were taken
	down    int
	code    model.Code
	older   int // it answers this to what it does not know: uploads in parts
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older != 0 && strings.HasSuffix(r.URL.Path, "/upload") {
		w.WriteHeader(s.older)
		return
	}
	code := s.code
	if r.Method == http.MethodHead { // the refusals that are told are of what is sent
		code = ""
	}
	if s.down > 0 {
		s.down--
		code = model.CodeUnavailable
	}
	if code != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": model.Errorf(code, "told to fail")})
		return
	}
	hash := filepath.Base(filepath.Dir(r.URL.Path))
	switch r.Method {
	case http.MethodHead:
		_, whole := s.blobs[hash]
		w.Header().Set("Upload-Offset", strconv.Itoa(len(s.parts[hash])))
		w.Header().Set("Upload-Complete", map[bool]string{true: "?1", false: "?0"}[whole])
	case http.MethodPatch:
		if !s.extend(hash, r.Header, body) {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": model.Errorf(model.CodeInvalid, "other bytes")})
			return
		}
	default:
		var doc model.Rendering
		if json.Unmarshal(body, &doc) != nil || !strings.HasSuffix(r.URL.Path, "/renderings") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		s.records[doc.ID] = doc
	}
	w.WriteHeader(http.StatusNoContent)
}

// extend takes the last part of a blob.
func (s *fileServer) extend(hash string, header http.Header, body []byte) (ok bool) {
	whole := s.parts[hash] + string(body)
	sum := sha256.Sum256([]byte(whole))
	at := header.Get("Upload-Offset") == strconv.Itoa(len(s.parts[hash])) && header.Get("Upload-Complete") == "?1"
	delete(s.parts, hash)
	if !at || header.Get("Content-Type") != "application/partial-upload" || hash != hex.EncodeToString(sum[:]) {
		return false
	}
	s.blobs[hash] = whole
	s.uploads = append(s.uploads, len(body))
	return true
}

type videoLab struct {
	*delivery
	server *fileServer
}

func newVideoLab(t *testing.T) *videoLab {
	t.Helper()
	folder, err := spool.OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	s := &fileServer{blobs: map[string]string{}, parts: map[string]string{}, records: map[string]model.Rendering{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	dir := filepath.Join(folder.Path, "writers", "w")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := &delivery{
		folder: folder, dir: dir, id: model.WriterID{7}, log: slog.New(slog.DiscardHandler), stop: make(chan struct{}),
		opts: &Options{Server: srv.URL, Env: func(string) string { return "" }},
	}
	d.runID.Store(&model.RunID{1})
	return &videoLab{d, s}
}

// add puts a video into the writer's folder.
func (l *videoLab) add(t *testing.T, number int, state spool.RenderingState, data string) *spool.RenderingFile {
	t.Helper()
	f, err := spool.NewRendering(l.dir, number, model.Rendering{ID: "w-" + strconv.Itoa(number), Env: "e", Episode: int64(number)})
	if err != nil {
		t.Fatal(err)
	}
	path := f.Part()
	if f.State = state; state == spool.RenderingDone {
		sum := sha256.Sum256([]byte(data))
		path, f.SHA256, f.SizeBytes, f.Complete, f.Frames = f.Video(), hex.EncodeToString(sum[:]), int64(len(data)), true, 4
	}
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (l *videoLab) left(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(l.dir, "renderings"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestVideosThatCannotGoAreTriedLessAndLess: a server that is away for a day is not
// asked every second.
func TestVideosThatCannotGoAreTriedLessAndLess(t *testing.T) {
	l := newVideoLab(t)
	l.add(t, 1, spool.RenderingDone, "video one")
	var tries []time.Time
	l.opts.Server = "no address"
	l.opts.Env = func(name string) string {
		if name == "KYMOGRAM_API_KEY" { // asked for once a try
			tries = append(tries, time.Now())
		}
		return ""
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		l.renderings(ctx)
		var waits []time.Duration
		for _, at := range tries {
			waits = append(waits, at.Sub(began))
			began = at
		}
		if len(waits) == 0 || waits[0] > time.Second {
			t.Fatalf("waits %v", waits)
		}
		if last := waits[len(waits)-1]; last < lastBackoff/2 || slices.Max(waits) > lastBackoff {
			t.Errorf("the last wait is %s of %v", last, waits)
		}
	})
}

func TestVideosAreUploadedOnceTheServerTakesThem(t *testing.T) {
	l := newVideoLab(t)
	l.add(t, 1, spool.RenderingDone, "video one")
	l.add(t, 2, spool.RenderingEncoding, "still coming")
	l.server.down = 1
	if left, err := l.sendRenderings(t.Context(), false); left == 0 || err == nil {
		t.Fatalf("a server that is down: %d left, %v", left, err)
	}
	if left, err := l.sendRenderings(t.Context(), false); left != 0 || err != nil {
		t.Fatalf("%d left, %v", left, err)
	}
	if r := l.server.records["w-1"]; !r.Complete || r.Frames != 4 || l.server.blobs[r.SHA256] != "video one" {
		t.Errorf("recorded %+v, blobs %v", r, l.server.blobs)
	}
	if n := l.left(t); n != 2 { // the record and the part of the one that is encoded
		t.Errorf("%d files are left, want 2", n)
	}
}

// A server without the route of uploads is said to be older, once, with the number
// of videos that wait; they go there when it is updated.
func TestVideosWaitForAnOlderServer(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed} {
		l := newVideoLab(t)
		var said bytes.Buffer
		l.log = slog.New(slog.NewTextHandler(&said, nil))
		for i := range 3 {
			l.add(t, i, spool.RenderingDone, "video "+strconv.Itoa(i))
		}
		l.server.older = status
		for range 3 {
			if left, err := l.sendRenderings(t.Context(), true); left != 3 || err == nil {
				t.Fatalf("%d: %d left, %v", status, left, err)
			}
		}
		if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "older") || !strings.Contains(text, "videos=3") {
			t.Errorf("%d: it said %s", status, text)
		}
		if !strings.Contains(l.trouble(), "older") || l.left(t) != 6 {
			t.Errorf("%d: %q, %d files are left", status, l.trouble(), l.left(t))
		}
		l.server.older = 0
		if !l.drainRenderings(t.Context()) || l.trouble() != "" || len(l.server.records) != 3 {
			t.Errorf("%d: %d videos after the update, %q", status, len(l.server.records), l.trouble())
		}
	}
}

// An upload goes on behind what the server has; where that were other bytes, or
// more than there are, it begins anew, once.
func TestUploadsGoOn(t *testing.T) {
	const data = "video one"
	sum := sha256.Sum256([]byte(data))
	hash := hex.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		there string
		sent  int
	}{"nothing": {"", 9}, "a part": {"video", 4}, "all but the end of it": {data, 0}, "other bytes": {"v1deo", 9}, "too many": {"video one, and more", 9}} {
		l := newVideoLab(t)
		l.add(t, 1, spool.RenderingDone, data)
		l.server.parts[hash] = c.there
		if left, err := l.sendRenderings(t.Context(), false); left != 0 || err != nil {
			t.Fatalf("%s: %d left, %v", name, left, err)
		}
		if l.server.blobs[hash] != data || len(l.server.uploads) != 1 || l.server.uploads[0] != c.sent {
			t.Errorf("%s: stored %q, sent %v", name, l.server.blobs[hash], l.server.uploads)
		}
	}
	l := newVideoLab(t)
	l.add(t, 1, spool.RenderingDone, data)
	l.server.blobs[hash] = data
	if left, err := l.sendRenderings(t.Context(), false); left != 0 || err != nil || len(l.server.uploads) > 0 {
		t.Errorf("one that is there: %d left, %v, sent %v", left, err, l.server.uploads)
	}
}

// Several videos are uploaded at once, as many as the writer says, and what was
// said of one later comes behind it.
func TestVideosAtOnce(t *testing.T) {
	for _, want := range []int{1, 3, 0} {
		l := newVideoLab(t)
		most := want
		if l.open.Pace = (&spool.Pace{RenderingUploads: want}); want == 0 {
			l.open.Pace, most = nil, videosAtOnce
		}
		const videos = 12
		for i := range videos {
			f := l.add(t, 2*i, spool.RenderingDone, "video "+strconv.Itoa(i))
			again, err := spool.NewRendering(l.dir, 2*i+1, f.Rendering)
			if err != nil {
				t.Fatal(err)
			}
			if again.State, again.Tags = spool.RenderingDone, []string{"later"}; again.Save() != nil {
				t.Fatal("not saved")
			}
		}
		var now, peak atomic.Int64
		l.server.during = func() {
			if n := now.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			time.Sleep(5 * time.Millisecond)
			now.Add(-1)
		}
		if left, err := l.sendRenderings(t.Context(), false); left != 0 || err != nil {
			t.Fatalf("%d left, %v", left, err)
		}
		if got := peak.Load(); got > int64(most) || most > 1 && got < 2 {
			t.Errorf("%d at once, want %d", got, most)
		}
		if len(l.server.records) != videos {
			t.Errorf("%d records", len(l.server.records))
		}
		for _, r := range l.server.records {
			if len(r.Tags) != 1 || l.server.blobs[r.SHA256] == "" {
				t.Errorf("%+v", r)
			}
		}
	}
}

// What a killed encoder left is saved as far as it is whole, and said to be lost
// where nothing is.
func TestHalfVideosOfADeadWriter(t *testing.T) {
	l := newVideoLab(t)
	whole := string(append(append(box("ftyp"), box("moov", make([]byte, 9))...), fragment(6, "abc")...))
	l.add(t, 1, spool.RenderingEncoding, whole+string(fragment(5, "defgh")[:20]))
	l.add(t, 2, spool.RenderingEncoding, "")
	if !l.drainRenderings(t.Context()) {
		t.Fatal("not drained")
	}
	if r := l.server.records["w-1"]; r.Complete || r.Frames != 6 || l.server.blobs[r.SHA256] != whole {
		t.Errorf("the half: %+v", r)
	}
	if r, ok := l.server.records["w-2"]; !ok || r.SHA256 != "" || r.Frames != 0 || r.Complete {
		t.Errorf("the lost one: %+v, %v", r, ok)
	}
	if n := l.left(t); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// A video whose encoder failed does not wait for the end of its process, and says
// how many frames it lost. A kill while it is saved changes nothing.
func TestVideosWhoseEncoderFailed(t *testing.T) {
	whole := string(append(append(box("ftyp"), box("moov", make([]byte, 9))...), fragment(6, "abc")...))
	for name, killed := range map[string]func(*spool.RenderingFile) error{
		"at once":          func(*spool.RenderingFile) error { return nil },
		"after the rename": func(f *spool.RenderingFile) error { return os.Rename(f.Part(), f.Video()) },
		"after a finish that failed": func(f *spool.RenderingFile) error {
			return os.WriteFile(f.Video(), []byte("another try, of no use"), 0o600)
		},
	} {
		l := newVideoLab(t)
		l.add(t, 1, spool.RenderingEncoding, "still coming")
		f := l.add(t, 2, spool.RenderingFailed, whole+"torn")
		f.Frames, f.FramesDropped = 9, 2
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		if err := killed(f); err != nil {
			t.Fatal(err)
		}
		if left, err := l.sendRenderings(t.Context(), false); left != 0 || err != nil {
			t.Fatalf("%s: %d left, %v", name, left, err)
		}
		r := l.server.records["w-2"]
		if r.Complete || r.Frames != 6 || r.FramesDropped != 5 || l.server.blobs[r.SHA256] != whole || len(l.server.records) != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestVideosThatAreRefusedForGoodAreKept(t *testing.T) {
	for _, code := range []model.Code{model.CodeTooLarge, model.CodeRunDeleted, model.CodeInvalid} {
		l := newVideoLab(t)
		l.server.code = code
		l.add(t, 1, spool.RenderingDone, "video")
		if !l.drainRenderings(t.Context()) || l.left(t) != 0 {
			t.Fatalf("%s: not drained", code)
		}
		kept, err := filepath.Glob(filepath.Join(l.folder.Path, "rejected", "*-rendering-1.mp4"))
		if err != nil || len(kept) != 1 {
			t.Errorf("%s: kept %v, %v", code, kept, err)
		}
	}
}
