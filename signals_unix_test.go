//go:build unix

package kymogram

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// A program that gets a signal says so of its run, and ends as it would without one.
func TestSignals(t *testing.T) {
	if how := os.Getenv("KYMOGRAM_TEST_SIGNALLED"); how != "" {
		signalled(how)
	}
	for _, c := range []struct {
		how    string
		signal syscall.Signal
		text   string
		by     string
		exit   string
	}{
		{"default", syscall.SIGTERM, "failed", "SIGTERM", "signal: terminated"},
		{"default", syscall.SIGINT, "failed", "SIGINT", "signal: interrupt"},
		{"cause", syscall.SIGTERM, "failed", "SIGTERM", "exit status 3"},
		{"cause", syscall.SIGINT, "failed", "SIGINT", "exit status 3"},
		{"channel", syscall.SIGTERM, "failed", "SIGTERM", "exit status 3"},
		{"closed", syscall.SIGTERM, "finished", "", "signal: terminated"},
		{"other", syscall.SIGHUP, "failed", "", "exit status 3"},
	} {
		t.Run(fmt.Sprint(c.how, " ", c.signal), func(t *testing.T) {
			f := startFake(t)
			cmd := exec.Command(os.Args[0], "-test.run=^TestSignals$")
			cmd.Env = append(os.Environ(), "KYMOGRAM_TEST_SIGNALLED="+c.how, "KYMOGRAM_SERVER="+f.http.URL, "KYMOGRAM_SPOOL_DIR="+t.TempDir())
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			must(t, err, cmd.Start())
			if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("the program said %q", line)
			}
			must(t, cmd.Process.Signal(c.signal))
			if err := cmd.Wait(); err == nil || err.Error() != c.exit {
				t.Errorf("the program ended by %v, want %s", err, c.exit)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.updates) == 0 {
				t.Fatal("no update came")
			}
			last := f.updates[len(f.updates)-1]
			if last.Op != model.OpClose || last.Text != c.text || last.Signal != c.by {
				t.Errorf("the run ended by %+v", last)
			}
		})
	}
}

// signalled is a program that waits for a signal.
func signalled(how string) {
	run, err := Init(context.Background(), Options{RunName: "r", EndOnSignal: how == "default" || how == "closed", NoEnvironment: true, Log: silent})
	if err != nil {
		panic(err)
	}
	if err := run.Log("x", 1); err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	switch how {
	case "cause":
		ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	case "channel":
		signal.Notify(signals, syscall.SIGTERM)
	case "other":
		signal.Notify(signals, syscall.SIGHUP)
	case "closed":
		if err := run.Close(context.Background()); err != nil {
			panic(err)
		}
	}
	defer stop()
	fmt.Println("ready")
	select {
	case <-time.After(time.Minute):
		err = errors.New("no signal came")
	case sig := <-signals:
		err = run.Interrupt(context.Background(), sig)
	case <-ctx.Done():
		err = run.Fail(context.Background(), context.Cause(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(3)
}
