package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// desk asks a server as somebody.
type desk struct {
	t       *testing.T
	address string
}

func (d desk) do(method, path, key, body string) (status int, answer []byte) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.address+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, answer
}

func (d desk) want(status int, method, path, key, body string) (answer map[string]any) {
	d.t.Helper()
	got, text := d.do(method, path, key, body)
	if got != status {
		d.t.Fatalf("%s %s: %d %s, want %d", method, path, got, text, status)
	}
	_ = json.Unmarshal(text, &answer) // not every answer is a document
	return answer
}

// smallDisk is a data folder on a file system of some MiB, and what fills it.
func smallDisk(t *testing.T, options string) (data, ballast string) {
	t.Helper()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, options); err != nil {
		t.Skipf("a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	return filepath.Join(disk, "data"), filepath.Join(disk, "ballast")
}

func fillDisk(t *testing.T, ballast string) {
	t.Helper()
	f, err := os.OpenFile(ballast, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// On a full disk keys can be revoked and people can sign in and out, though others
// take every byte that is freed.
func TestAFullDiskKeepsNobodyIn(t *testing.T) {
	data, ballast := smallDisk(t, "size=24m")
	s := &killable{t: t, data: data, keys: true}
	s.start()
	t.Cleanup(s.kill)
	d := desk{t, s.address}
	raw, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	admin := string(bytes.TrimSpace(raw))
	const reader = `{"name":"reader","scopes":["read"]}`
	var stolen []map[string]any
	for range 20 {
		stolen = append(stolen, d.want(http.StatusCreated, "POST", "/api/v1/keys", admin, reader))
	}
	d.want(http.StatusOK, "GET", "/readyz", "", "")
	fillDisk(t, ballast)
	d.until(time.Minute, "the catalog's log is full, too", func() bool {
		status, _ := d.do("POST", "/api/v1/keys", admin, reader)
		return status == http.StatusInsufficientStorage
	})
	d.until(time.Minute, "readyz fails", func() bool {
		status, answer := d.do("GET", "/readyz", "", "")
		return status == http.StatusInsufficientStorage && bytes.Contains(answer, []byte(model.CodeDiskFull)) && bytes.Contains(answer, []byte("the disk is full"))
	})
	for _, key := range stolen {
		fillDisk(t, ballast)
		d.want(http.StatusNoContent, "DELETE", "/api/v1/keys/"+key["id"].(string), admin, "")
		d.want(http.StatusUnauthorized, "GET", "/api/v1/projects", key["key"].(string), "")
	}
	for range 5 {
		fillDisk(t, ballast)
		link := d.want(http.StatusCreated, "POST", "/api/v1/links", admin, "")["link"].(string)
		_, token, _ := strings.Cut(link, "#")
		d.want(http.StatusOK, "POST", "/api/v1/session", "", `{"token":"`+token+`"}`)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	d.until(time.Minute, "the server is ready and holds its reserve", func() bool {
		status, _ := d.do("GET", "/readyz", "", "")
		info, err := os.Stat(filepath.Join(data, "reserve"))
		return status == http.StatusOK && err == nil && info.Size() == 2<<20
	})
}

func (d desk) until(limit time.Duration, what string, is func() bool) {
	d.t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("it never was so: %s", what)
		}
	}
}
