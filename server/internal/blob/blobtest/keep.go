package blobtest

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // it is what the contract says
	"errors"
	"io"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

const keepMost = 64 << 20

func keepAll(t *testing.T, s blob.Store, r io.Reader, want []byte) {
	t.Helper()
	h, size, sum, err := s.Keep(t.Context(), r, keepMost)
	if err != nil {
		t.Fatalf("keep: %v", err)
	}
	if h != hashOf(want) || size != int64(len(want)) || sum != md5.Sum(want) { //nolint:gosec // likewise
		t.Fatalf("kept %d bytes as %s, md5 %x", size, h, sum)
	}
	if got := read(t, s, h); !bytes.Equal(got, want) {
		t.Fatal("other bytes than those kept")
	}
}

// keep keeps what is empty, small, large, and there already.
func keep(t *testing.T, s blob.Store) {
	large := bytes.Repeat([]byte("kymogram"), 6<<20)
	for range 2 {
		for _, data := range [][]byte{nil, {0}, []byte("text"), large} {
			keepAll(t, s, bytes.NewReader(data), data)
		}
		keepAll(t, s, iotest.OneByteReader(bytes.NewReader([]byte("bit by bit"))), []byte("bit by bit"))
		keepAll(t, s, iotest.DataErrReader(bytes.NewReader([]byte("with its end"))), []byte("with its end"))
	}
	put(t, s, []byte("put"))
	keepAll(t, s, bytes.NewReader([]byte("put")), []byte("put"))
	roundTrip(t, s, []byte("text"))
	if err := s.Delete(t.Context(), hashOf(large)); err != nil {
		t.Fatal(err)
	}
	keepAll(t, s, bytes.NewReader(large), large)
}

func keepBroken(t *testing.T, s blob.Store) {
	data, broken := []byte("half of it"), errors.New("the line broke")
	for _, n := range []int{0, 4, len(data)} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken))
		if h, size, _, err := s.Keep(t.Context(), r, keepMost); !errors.Is(err, broken) || size != 0 || h != (blob.Hash{}) {
			t.Fatalf("keep: %s, %d, %v", h, size, err)
		}
		wantMissing(t, s, hashOf(data[:n]))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := s.Keep(ctx, bytes.NewReader(data), keepMost); !errors.Is(err, context.Canceled) {
		t.Fatalf("keep: %v, want %v", err, context.Canceled)
	}
	wantMissing(t, s, hashOf(data))
	keepAll(t, s, bytes.NewReader(data), data)
}

func keepLimit(t *testing.T, s blob.Store) {
	data := []byte("0123456789")
	for limit, want := range map[int64]model.Code{0: model.CodeTooLarge, 9: model.CodeTooLarge, 10: "", 11: "", -1: model.CodeTooLarge} {
		h, size, _, err := s.Keep(t.Context(), bytes.NewReader(data), limit)
		if model.CodeOf(err) != want {
			t.Fatalf("keep at most %d: %v, want %q", limit, err, want)
		}
		if want != "" {
			wantMissing(t, s, hashOf(data))
			wantMissing(t, s, hashOf(data[:max(limit, 0)]))
		} else if err := s.Delete(t.Context(), h); err != nil || size != 10 {
			t.Fatal(size, err)
		}
	}
	if _, size, _, err := s.Keep(t.Context(), bytes.NewReader(nil), 0); err != nil || size != 0 {
		t.Fatalf("nothing: %d, %v", size, err)
	}
	// What has no end is not read on.
	if _, _, _, err := s.Keep(t.Context(), endless{}, 1<<20); model.CodeOf(err) != model.CodeTooLarge {
		t.Fatalf("without an end: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// keepAtOnce keeps, puts and deletes equal bytes side by side: what is kept last is there.
func keepAtOnce(t *testing.T, s blob.Store) {
	data := bytes.Repeat([]byte{7}, 1<<16)
	var group sync.WaitGroup
	for i := range 12 {
		group.Go(func() {
			var err error
			switch i % 3 {
			case 0:
				err = s.Put(t.Context(), hashOf(data), bytes.NewReader(data))
			case 1:
				err = s.Delete(t.Context(), hashOf(data))
			default:
				var h blob.Hash
				if h, _, _, err = s.Keep(t.Context(), bytes.NewReader(data), keepMost); err == nil && h != hashOf(data) {
					t.Errorf("kept as %s", h)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	keepAll(t, s, bytes.NewReader(data), data)
}
