package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/versitygw"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/blobtest"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
)

const bucket = "blobs"

// service is an S3 in this process, and a bucket in it.
func service(t *testing.T) (endpoint string) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return server.URL
}

func open(t *testing.T, location string) *s3.Store {
	t.Helper()
	place, err := s3.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3.Open(t.Context(), place, filepath.Join(t.TempDir(), "tmp"), "us")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	endpoint := service(t)
	var n atomic.Int64
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return open(t, fmt.Sprintf("s3://%s/suite%d?endpoint=%s", bucket, n.Add(1), endpoint))
	})
}

// TestSuiteOfAService runs against S3_URL=s3://BUCKET/PREFIX?endpoint=URL, with the keys of the
// environment, else against versitygw.
func TestSuiteOfAService(t *testing.T) {
	location := os.Getenv("S3_URL")
	if location == "" && os.Getenv("CLUSTER") == "" {
		t.Skip("S3_URL is not set, and versitygw is for make test-cluster")
	}
	if location == "" {
		location = versitygw.Start(t).Location("")
	}
	place, err := s3.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	place.Prefix += fmt.Sprintf("kymogram-test-%d/", time.Now().UnixNano())
	prefix := place.Prefix
	n := 0
	blobtest.Run(t, func(t *testing.T) blob.Store {
		n++
		place.Prefix = fmt.Sprintf("%s%d/", prefix, n)
		s, err := s3.Open(t.Context(), place, filepath.Join(t.TempDir(), "tmp"), "us")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // with what the suite left there
			if _, _, err := s.Sweep(context.Background(), time.Now().Add(time.Hour), func([]string) (map[string]bool, error) { return nil, nil }); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

// TestLinks: with reads=direct a blob is read at S3, by an address that needs no key. That S3 looks
// at the signature is seen with a service that does.
func TestLinks(t *testing.T) {
	location, strict := "s3://"+bucket+"/links?endpoint="+service(t), false
	if os.Getenv("CLUSTER") != "" {
		location, strict = versitygw.Start(t).Location("links"), true
	}
	direct := location + "&reads=direct"
	s, data := open(t, direct), []byte("some bytes")
	h := blob.Hash(sha256.Sum256(data))
	if err := s.Put(t.Context(), h, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if link, err := open(t, location).Link(t.Context(), h, time.Minute); link != "" || err != nil {
		t.Errorf("without reads=direct: %q, %v", link, err)
	}
	signer, err := blob.NewSigner(make([]byte, 32), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	everybody := func(context.Context, string) (bool, error) { return true, nil }
	handler := blob.NewHandler(s, signer, 1<<20, everybody, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) })
	var given map[string]any
	handler.URL(func(blob.Hash) string { return "/here" }, func(_ http.ResponseWriter, _ int, answer any) { given, _ = answer.(map[string]any) }).
		ServeHTTP(httptest.NewRecorder(), requestOf(http.MethodGet, h))
	link, _ := given["url"].(string)
	read := func(link string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	answer, body := read(link)
	if answer.StatusCode != http.StatusOK || body != string(data) || answer.Header.Get("Content-Disposition") != "attachment" || answer.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%s: %s %v %q", link, answer.Status, answer.Header, body)
	}
	if other, _ := read(strings.Replace(link, "X-Amz-Expires=900", "X-Amz-Expires=9000", 1)); strict && other.StatusCode != http.StatusForbidden {
		t.Errorf("for longer than it was signed: %s", other.Status)
	}
	handler.URL(func(blob.Hash) string { return "/here" }, func(_ http.ResponseWriter, _ int, answer any) { given, _ = answer.(map[string]any) }).
		ServeHTTP(httptest.NewRecorder(), requestOf(http.MethodPost, h))
	if to, _ := given["url"].(string); !strings.HasPrefix(to, "/here?") {
		t.Errorf("uploads go to %s", to)
	}
}

func requestOf(method string, h blob.Hash) *http.Request {
	r := httptest.NewRequest(method, "/", http.NoBody)
	r.SetPathValue("sha256", h.String())
	return r
}

// TestTwoNodes: a node goes on with what another one began, and of two that append at one place
// one is told to ask again.
func TestTwoNodes(t *testing.T) {
	location := "s3://" + bucket + "?endpoint=" + service(t)
	one, two := open(t, location), open(t, location)
	data := bytes.Repeat([]byte("kymogram"), 3<<20) // parts of S3 are smaller
	u := blob.Upload{Hash: sha256.Sum256(data), Owner: "me"}
	for i, at := range []int{0, 1, 10 << 20, 12 << 20} {
		s := []*s3.Store{one, two}[i%2]
		end := []int{1, 10 << 20, 12 << 20, len(data)}[i]
		if next, err := s.Append(t.Context(), u, int64(at), end == len(data), bytes.NewReader(data[at:end])); err != nil || next != int64(end) {
			t.Fatalf("append at %d: %d, %v", at, next, err)
		}
		if next, whole, err := []*s3.Store{two, one}[i%2].Offset(t.Context(), u); err != nil || next != int64(end) || whole != (end == len(data)) {
			t.Fatalf("the other node sees %d, %v, %v", next, whole, err)
		}
	}
	r, err := one.Open(t.Context(), u.Hash)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 { // anywhere, in any length
		from := random.IntN(len(data))
		part := make([]byte, random.IntN(len(data)-from+1))
		if _, err := r.Seek(int64(from), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, part); err != nil || !bytes.Equal(part, data[from:from+len(part)]) {
			t.Fatalf("%d bytes at %d: %v", len(part), from, err)
		}
	}

	race := blob.Upload{Hash: sha256.Sum256([]byte("race")), Owner: "me"}
	in, out := io.Pipe()
	late := make(chan error, 1)
	go func() {
		_, err := one.Append(t.Context(), race, 0, false, in)
		late <- err
	}()
	if _, err := out.Write([]byte("ra")); err != nil { // one has looked where it stands
		t.Fatal(err)
	}
	if _, err := two.Append(t.Context(), race, 0, true, strings.NewReader("race")); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := <-late; err != nil && model.CodeOf(err) != model.CodeConflict {
		t.Error(err)
	}
	if offset, whole, err := two.Offset(t.Context(), race); offset != 4 || !whole || err != nil {
		t.Errorf("%d, %v, %v", offset, whole, err)
	}
}

func TestUploadsAreBounded(t *testing.T) {
	s := open(t, "s3://"+bucket+"?endpoint="+service(t))
	begin := func(owner string, i int) model.Code {
		u := blob.Upload{Hash: sha256.Sum256(fmt.Append(nil, i)), Owner: owner}
		_, err := s.Append(t.Context(), u, 0, false, strings.NewReader("part"))
		return model.CodeOf(err)
	}
	for i := range 66 {
		want := model.Code("")
		if i >= 64 {
			want = model.CodeBusy
		}
		if code := begin("greedy", i); code != want {
			t.Fatalf("upload %d: %q, want %q", i, code, want)
		}
	}
	if code := begin("another", 0); code != "" {
		t.Fatal(code)
	}
	if _, _, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), nil); err != nil { // all rest
		t.Fatal(err)
	}
	if code := begin("greedy", 65); code != "" {
		t.Fatal(code)
	}
}

// A sweep deletes what is not used, and nothing that is young.
func TestSweep(t *testing.T) {
	s := open(t, "s3://"+bucket+"/below/it?endpoint="+service(t))
	put := func(text string) blob.Hash {
		h := blob.Hash(sha256.Sum256([]byte(text)))
		if err := s.Put(t.Context(), h, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	used, gone := put("used"), put("gone!")
	none := func([]string) (map[string]bool, error) { t.Error("asked about a young blob"); return nil, nil }
	if files, _, err := s.Sweep(t.Context(), time.Now().Add(-time.Hour), none); files != 0 || err != nil {
		t.Fatal(files, err)
	}
	files, size, err := s.Sweep(t.Context(), time.Now().Add(time.Hour), func(hashes []string) (map[string]bool, error) {
		if len(hashes) != 2 {
			t.Errorf("asked about %v", hashes)
		}
		return map[string]bool{used.String(): true}, nil
	})
	if err != nil || files != 1 || size != 5 {
		t.Fatal(files, size, err)
	}
	for h, want := range map[blob.Hash]model.Code{used: "", gone: model.CodeNotFound} {
		if _, err := s.Open(t.Context(), h); model.CodeOf(err) != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a service answers instead of an object is an error with a reason, never other bytes.
func TestAServiceThatFails(t *testing.T) {
	behind := service(t)
	var answer atomic.Pointer[http.HandlerFunc]
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := answer.Load(); f != nil {
			(*f)(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := open(t, "s3://"+bucket+"?endpoint="+front.URL)
	data := bytes.Repeat([]byte("kymogram"), 1<<14)
	h := blob.Hash(sha256.Sum256(data))
	if err := s.Put(t.Context(), h, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	said := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>as told</Message></Error>`, code)
		}
	}
	for code, tt := range map[string]struct {
		status int
		want   model.Code
	}{
		"AccessDenied":  {http.StatusForbidden, model.CodeUnavailable},
		"NoSuchBucket":  {http.StatusNotFound, model.CodeUnavailable},
		"QuotaExceeded": {http.StatusForbidden, model.CodeDiskFull},
	} {
		f := said(tt.status, code)
		answer.Store(&f)
		other := []byte("other")
		if err := s.Put(t.Context(), sha256.Sum256(other), bytes.NewReader(other)); model.CodeOf(err) != tt.want && model.CodeOf(err) != model.CodeUnavailable {
			t.Errorf("%s: %v, want %s", code, err, tt.want)
		}
	}
	half := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Range") == "" {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("ETag", `"x"`)
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[:len(data)/2])
	})
	answer.Store(&half)
	r, err := s.Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err == nil || !bytes.Equal(got, data[:len(got)]) {
		t.Errorf("half an object: %d bytes, %v", len(got), err)
	}
	answer.Store(nil)
	if r, err = s.Open(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("afterwards: %d bytes, %v", len(got), err)
	}
}
