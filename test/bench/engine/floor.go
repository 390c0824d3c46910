package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/kymogram/kymogram/internal/wal"
)

// floor is a server that only takes requests in and syncs their bytes in a log before it
// answers: what a server in Go that is as safe as ours costs, before it does anything.
type floor struct {
	process
	folder, address string
}

const serveFloor = "serve-floor"

func (f *floor) name() string { return floorName }

func (f *floor) boot(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	free, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f.address = free.Addr().String()
	_ = free.Close()
	f.cmd = exec.CommandContext(ctx, self, serveFloor, f.address, filepath.Join(f.folder, "data"))
	f.said.Reset()
	f.cmd.Stderr = &f.said
	if err := f.cmd.Start(); err != nil {
		return fmt.Errorf("start the floor: %w", err)
	}
	if err := waitFor(ctx, "start of the floor", func() bool {
		_, err := fetch(ctx, "http://"+f.address+"/", nil)
		return err == nil
	}); err != nil {
		return err
	}
	return f.ready()
}

func (f *floor) target(protocol) target { return target{url: "http://" + f.address + "/"} }

func (f *floor) bytesAtRest() (int64, error) {
	return folderBytes(f.folder, func(string) bool { return true })
}

func (f *floor) queries(context.Context) (map[string]func(context.Context) error, error) {
	return nil, errors.New("the floor answers no query")
}

// floorMain is the server itself.
func floorMain(ctx context.Context, address, folder string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	log, _, err := wal.Open(wal.OS{}, folder, wal.Options{}, func(uint64, []byte) error { return nil })
	if err != nil {
		return err
	}
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	s := &http.Server{Addr: address, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := buffers.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is in it
		defer buffers.Put(b)
		b.Reset()
		_, err := io.Copy(b, r.Body)
		if err == nil && b.Len() > 0 {
			_, err = log.Append(r.Context(), b.Bytes())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return log.Close()
}
