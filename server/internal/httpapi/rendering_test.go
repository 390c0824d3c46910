package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

func TestRenderingsAreRecordedListedAndWatched(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	signer, err := blob.NewSigner(make([]byte, 32), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	fail := func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	l := newLab(t, httpapi.Options{Files: blob.NewHandler(store, signer, 1<<20, everybody, fail)})
	run := l.writer("r", nil).run
	base := "/api/v1/runs/" + run.String() + "/renderings"
	const data = "not quite a video"
	sum := sha256.Sum256([]byte(data))
	hash := hex.EncodeToString(sum[:])
	record := func(id, env string, episode int, sha string) string {
		return fmt.Sprintf(`{"id":%q,"env_id":%q,"episode":%d,"sha256":%q,"content_type":"video/mp4","frames":3,"fps":30}`, id, env, episode, sha)
	}
	for _, body := range []string{record("w-1", "b", 2, hash), record("w-1", "a", 2, hash), record("w-2", "a", 1, ""), record("w-3", "a", 9, strings.Repeat("0", 64))} {
		if a := l.do("POST", base, nil, body); a.status != http.StatusNoContent {
			t.Fatalf("record: %d %s", a.status, a.body)
		}
	}
	for _, bad := range []string{`{"env_id":"a"}`, record("w 1", "a", 1, ""), record("w", "", 1, ""), record("w", "a", -1, ""), record("w", "a", 1, "xyz"), `{"id":"w","env_id":"a","marks":[{"name":"m","from_frame":2,"to_frame":1}]}`} {
		if a := l.do("POST", base, nil, bad); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	listed := func() (out []string) {
		for _, r := range decode(t, l.do("GET", base, nil, "").body)["renderings"].([]any) {
			one := r.(map[string]any)
			out = append(out, fmt.Sprintf("%v %v %v %v %v", one["id"], one["env_id"], one["episode"], one["stored"], one["url"] != nil))
		}
		return out
	}
	want := []string{"w-2 a 1 false false", "w-1 a 2 false false", "w-3 a 9 false false"}
	if got := listed(); strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("listed %q, want %q", got, want)
	}
	if err := store.Put(context.Background(), sum, strings.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if got := listed(); !strings.HasSuffix(got[1], "true true") {
		t.Errorf("after the upload: %q", got)
	}
	watch(t, l, base+"/w-1/video", data)
	for path, code := range map[string]int{base + "/w-2/video": 404, base + "/w-9/video": 404, base + "/w-3/video": 404} {
		if a := l.do("GET", path, nil, ""); a.status != code {
			t.Errorf("%s: %d %s, want %d", path, a.status, a.body, code)
		}
	}
}

func watch(t *testing.T, l *lab, path, data string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, l.http.URL+path, nil)
	request.RequestURI = ""
	request.Header.Set("Range", "bytes=4-8")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	part := make([]byte, 64)
	n, _ := answer.Body.Read(part)
	if answer.StatusCode != http.StatusPartialContent || string(part[:n]) != data[4:9] || answer.Header.Get("Content-Type") != "video/mp4" {
		t.Errorf("bytes 4-8: %d %q as %s", answer.StatusCode, part[:n], answer.Header.Get("Content-Type"))
	}
}

func everybody(context.Context, string) (bool, error) { return true, nil }
