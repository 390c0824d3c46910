package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// TestFilesInABucket: a server keeps its files in a bucket and none in its folder; another one,
// which would sweep them, cannot use the same place.
func TestFilesInABucket(t *testing.T) {
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(service.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-bucket")
	location := "s3://files/team?endpoint=" + service.URL

	data := strings.Repeat("a video of an episode ", 1000)
	sum := sha256.Sum256([]byte(data))
	path := "/api/v1/blobs/" + hex.EncodeToString(sum[:])
	k := serveKitchen(t, "--blob", location)
	ask := func(k *kitchen, method, body string, header ...string) (status int, answer string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+k.address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		key, err := os.ReadFile(filepath.Join(k.env["HOME"], "data", "admin.key"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		read, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(read)
	}
	if status, answer := ask(k, http.MethodPut, data); status != http.StatusNoContent {
		t.Fatal(status, answer)
	}
	if status, answer := ask(k, http.MethodGet, ""); status != http.StatusOK || answer != data {
		t.Errorf("%d, %d bytes", status, len(answer))
	}
	if status, answer := ask(k, http.MethodGet, "", "Range", "bytes=21990-"); status != http.StatusPartialContent || answer != data[21990:] {
		t.Errorf("%d, %q", status, answer)
	}
	var files []string
	err := filepath.WalkDir(filepath.Join(k.env["HOME"], "data", "blobs"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
	if shown := k.ok("doctor", "--json"); strings.Contains(shown, "secret-of-the-bucket") {
		t.Error(shown)
	}
	// Another data folder has another secret; the same one has it again after a start.
	code, _, errs := k.run("serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--blob", location)
	if code == 0 || !strings.Contains(errs, "s3://files/team/ is the place of another server's files") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestABucketThatCannotBeUsed: a start says what is wrong, and a folder that has files is not
// left behind.
func TestABucketThatCannotBeUsed(t *testing.T) {
	service := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(service.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	full := t.TempDir()
	if err := os.MkdirAll(filepath.Join(full, "blobs", "ab"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(full, "blobs", "ab", strings.Repeat("ab", 31)), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ location, folder, says string }{
		"none":        {"s3://none?endpoint=" + service.URL, t.TempDir(), "there is no bucket none"},
		"nobody":      {"s3://none?endpoint=http://127.0.0.1:1", t.TempDir(), "open the bucket none: S3 failed"},
		"no bucket":   {"s3://", t.TempDir(), "it must be s3://BUCKET/PREFIX"},
		"a key":       {"s3://key:secret@none", t.TempDir(), "it must be s3://BUCKET/PREFIX"},
		"a path":      {"/data/blobs", t.TempDir(), "it must be s3://BUCKET/PREFIX"},
		"a setting":   {"s3://none?acl=public", t.TempDir(), `"acl" is no setting of a bucket`},
		"a secret":    {"s3://none?endpoint=http://key:secret@h", t.TempDir(), "the endpoint of S3 must be"},
		"an endpoint": {"s3://none?endpoint=127.0.0.1:9000", t.TempDir(), "the endpoint of S3 must be"},
		"local files": {"s3://none?endpoint=" + service.URL, full, "holds files, which a server with the bucket none would not find"},
	} {
		k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
		code, _, errs := k.run("serve", "--data", tt.folder, "--http", "127.0.0.1:0", "--blob", tt.location)
		if code == 0 || !strings.Contains(errs, tt.says) || strings.Contains(errs, "key:secret") {
			t.Errorf("%s: %d\n%s", name, code, errs)
		}
	}
}
