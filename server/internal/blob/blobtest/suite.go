// Package blobtest is the suite that every back end of package blob passes.
package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

// Run runs the suite; open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	tests := map[string]func(*testing.T, blob.Store){
		"put and open":       putAndOpen,
		"unknown":            unknown,
		"wrong hash":         wrongHash,
		"reader fails":       readerFails,
		"cancelled":          cancelled,
		"same blob at once":  sameAtOnce,
		"delete":             remove,
		"seek":               seek,
		"keep":               keep,
		"keep what breaks":   keepBroken,
		"keep up to a limit": keepLimit,
		"keep at once":       keepAtOnce,
		"parts":              parts,
		"parts of others":    otherParts,
		"parts that break":   brokenParts,
		"parts by two":       partsByTwo,
		"parts by owners":    partsByOwners,
		"empty blob":         func(t *testing.T, s blob.Store) { roundTrip(t, s, nil) },
		"blob of many bytes": func(t *testing.T, s blob.Store) { roundTrip(t, s, bytes.Repeat([]byte("kymogram"), 1<<18)) },
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// mine is the upload of one owner.
func mine(h blob.Hash) blob.Upload { return blob.Upload{Hash: h, Owner: "me"} }

func hashOf(data []byte) blob.Hash { return sha256.Sum256(data) }

func put(t *testing.T, s blob.Store, data []byte) blob.Hash {
	t.Helper()
	h := hashOf(data)
	if err := s.Put(t.Context(), h, bytes.NewReader(data)); err != nil {
		t.Fatalf("put: %v", err)
	}
	return h
}

func read(t *testing.T, s blob.Store, h blob.Hash) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), h)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if int64(len(data)) != r.Size() {
		t.Fatalf("read %d bytes, size says %d", len(data), r.Size())
	}
	return data
}

func roundTrip(t *testing.T, s blob.Store, data []byte) {
	t.Helper()
	if got := read(t, s, put(t, s, data)); !bytes.Equal(got, data) {
		t.Fatalf("got %d other bytes than the %d put", len(got), len(data))
	}
}

func putAndOpen(t *testing.T, s blob.Store) {
	for _, text := range []string{"a", "b", "a"} {
		roundTrip(t, s, []byte(text))
	}
}

func wantMissing(t *testing.T, s blob.Store, h blob.Hash) {
	t.Helper()
	if _, err := s.Open(t.Context(), h); model.CodeOf(err) != model.CodeNotFound {
		t.Fatalf("open: %v, want %s", err, model.CodeNotFound)
	}
}

func unknown(t *testing.T, s blob.Store) { wantMissing(t, s, hashOf([]byte("never put"))) }

func wrongHash(t *testing.T, s blob.Store) {
	h := hashOf([]byte("what was promised"))
	if err := s.Put(t.Context(), h, bytes.NewReader([]byte("what came"))); model.CodeOf(err) != model.CodeInvalid {
		t.Fatalf("put: %v, want %s", err, model.CodeInvalid)
	}
	wantMissing(t, s, h)
	wantMissing(t, s, hashOf([]byte("what came")))
}

func readerFails(t *testing.T, s blob.Store) {
	data, broken := []byte("half of it"), errors.New("the line broke")
	r := io.MultiReader(bytes.NewReader(data[:4]), iotest.ErrReader(broken))
	if err := s.Put(t.Context(), hashOf(data), r); !errors.Is(err, broken) {
		t.Fatalf("put: %v, want %v", err, broken)
	}
	wantMissing(t, s, hashOf(data))
	roundTrip(t, s, data)
}

func cancelled(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := []byte("too late")
	if err := s.Put(ctx, hashOf(data), bytes.NewReader(data)); !errors.Is(err, context.Canceled) {
		t.Fatalf("put: %v, want %v", err, context.Canceled)
	}
	wantMissing(t, s, hashOf(data))
}

func sameAtOnce(t *testing.T, s blob.Store) {
	data := bytes.Repeat([]byte{7}, 1<<16)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := s.Put(t.Context(), hashOf(data), bytes.NewReader(data)); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
	group.Wait()
	if got := read(t, s, hashOf(data)); !bytes.Equal(got, data) {
		t.Fatal("other bytes than those put")
	}
}

func remove(t *testing.T, s blob.Store) {
	h, other := put(t, s, []byte("goes")), put(t, s, []byte("stays"))
	for range 2 {
		if err := s.Delete(t.Context(), h); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	wantMissing(t, s, h)
	read(t, s, other)
}

func seek(t *testing.T, s blob.Store) {
	r, err := s.Open(t.Context(), put(t, s, []byte("0123456789")))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Seek(-3, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "789" {
		t.Fatalf("read %q, %v, want the last three bytes", got, err)
	}
}

func wantOffset(t *testing.T, s blob.Store, h blob.Hash, want int64, whole bool) {
	t.Helper()
	if offset, got, err := s.Offset(t.Context(), mine(h)); err != nil || offset != want || got != whole {
		t.Fatalf("it stands at %d, %v, %v; want %d, %v", offset, got, err, want, whole)
	}
}

func appendTo(t *testing.T, s blob.Store, h blob.Hash, offset int64, last bool, data []byte, want model.Code) {
	t.Helper()
	if _, err := s.Append(t.Context(), mine(h), offset, last, bytes.NewReader(data)); model.CodeOf(err) != want {
		t.Fatalf("append at %d: %v, want %q", offset, err, want)
	}
}

func parts(t *testing.T, s blob.Store) {
	data := []byte("0123456789")
	h := hashOf(data)
	wantOffset(t, s, h, 0, false)
	appendTo(t, s, h, 0, false, data[:4], "")
	wantOffset(t, s, h, 4, false)
	wantMissing(t, s, h)
	appendTo(t, s, h, 0, false, data, model.CodeConflict)
	appendTo(t, s, h, 5, true, data[5:], model.CodeConflict)
	appendTo(t, s, h, 4, false, nil, "")
	appendTo(t, s, h, 4, true, data[4:], "")
	wantOffset(t, s, h, 10, true)
	if got := read(t, s, h); !bytes.Equal(got, data) {
		t.Fatalf("got %q", got)
	}
	appendTo(t, s, h, 3, true, []byte("never read"), "") // it is there
	wantOffset(t, s, h, 10, true)
	roundTrip(t, s, data)
	empty := hashOf(nil)
	appendTo(t, s, empty, 0, true, nil, "")
	wantOffset(t, s, empty, 0, true)
}

// Parts of other bytes are dropped once they are compared, and cost nothing then.
func otherParts(t *testing.T, s blob.Store) {
	data := []byte("what was promised")
	h := hashOf(data)
	appendTo(t, s, h, 0, false, []byte("what came"), "")
	appendTo(t, s, h, 9, true, []byte(" and more"), model.CodeInvalid)
	wantOffset(t, s, h, 0, false)
	wantMissing(t, s, h)
	appendTo(t, s, h, 0, true, data, "")
	read(t, s, h)
}

func brokenParts(t *testing.T, s blob.Store) {
	data, broken := []byte("half of it"), errors.New("the line broke")
	h := hashOf(data)
	r := io.MultiReader(bytes.NewReader(data[:4]), iotest.ErrReader(broken))
	if next, err := s.Append(t.Context(), mine(h), 0, true, r); !errors.Is(err, broken) || next != 4 {
		t.Fatalf("append: %d, %v", next, err)
	}
	wantOffset(t, s, h, 4, false)
	wantMissing(t, s, h)
	roundTrip(t, s, data) // in one piece, meanwhile
	wantOffset(t, s, h, int64(len(data)), true)
}

// Two uploads of one blob: one goes on, the other is told to wait.
func partsByTwo(t *testing.T, s blob.Store) {
	data := bytes.Repeat([]byte("kymogram"), 1<<10)
	h := hashOf(data)
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), mine(h), 0, true, in)
		done <- err
	}()
	if _, err := out.Write(data[:100]); err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, h, 100, true, data[100:], model.CodeConflict)
	appendTo(t, s, hashOf([]byte("another")), 0, true, []byte("another"), "")
	if _, err := out.Write(data[100:]); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, h); !bytes.Equal(got, data) {
		t.Fatal("other bytes than those sent")
	}
}

// Nobody but its owner adds to an upload, or sees how far it is.
func partsByOwners(t *testing.T, s blob.Store) {
	data := []byte("mine, all mine")
	h := hashOf(data)
	theirs := blob.Upload{Hash: h, Owner: "somebody else"}
	appendTo(t, s, h, 0, false, data[:4], "")
	if next, err := s.Append(t.Context(), theirs, 4, false, bytes.NewReader([]byte("evil"))); model.CodeOf(err) != model.CodeConflict || next != 0 {
		t.Fatalf("another's append: %d, %v", next, err)
	}
	if offset, whole, err := s.Offset(t.Context(), theirs); offset != 0 || whole || err != nil {
		t.Fatalf("another sees %d, %v, %v", offset, whole, err)
	}
	if _, err := s.Append(t.Context(), theirs, 0, false, bytes.NewReader([]byte("evil"))); err != nil {
		t.Fatalf("another's own: %v", err)
	}
	wantOffset(t, s, h, 4, false)
	appendTo(t, s, h, 4, true, data[4:], "")
	read(t, s, h)
	if next, err := s.Append(t.Context(), theirs, 4, true, bytes.NewReader([]byte("late"))); err != nil || next != int64(len(data)) {
		t.Fatalf("another's, when the blob is there: %d, %v", next, err)
	}
}
