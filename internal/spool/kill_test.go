package spool

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	childFolder = "KYMOGRAM_TEST_SPOOL_CHILD"
	childPoints = "KYMOGRAM_TEST_SPOOL_POINTS"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFolder); path != "" {
		if n, err := strconv.Atoi(os.Getenv(childPoints)); err == nil {
			logPoints(path, n)
			os.Exit(0) // as a program does that forgets Close
		}
		logForever(path)
	}
	os.Exit(m.Run())
}

// logPoints appends n points and leaves the writer open.
func logPoints(path string, n int) {
	f, err := OpenFolder(path)
	if err != nil {
		panic(err)
	}
	var t testing.T
	w := testWriter(&t, f, 1, WriterOptions{})
	s := testSeries(&t, w, "m")
	for i := range n {
		if err := w.Point(s, FlagStep, int64(i), 1, 0); err != nil {
			panic(err)
		}
	}
}

// logForever appends from 4 goroutines and prints the last step of each that was
// stored, until it is killed.
func logForever(path string) {
	f, err := OpenFolder(path)
	if err != nil {
		panic(err)
	}
	var t testing.T
	w := testWriter(&t, f, 1, WriterOptions{})
	var out sync.Mutex
	for worker := range 4 {
		s := testSeries(&t, w, "w"+strconv.Itoa(worker))
		go func() {
			for i := int64(0); ; i++ {
				if err := w.Point(s, FlagStep, i, 1, uint64(i)); err != nil {
					panic(err)
				}
				if i%50 == 0 {
					out.Lock()
					fmt.Printf("%d %d\n", worker, i)
					out.Unlock()
				}
			}
		}()
	}
	select {}
}

// startLogging starts a process that logs until it is killed.
func startLogging(t *testing.T, f *Folder) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childFolder+"="+f.Path)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, pipe
}

// TestKill: every point whose append had returned is read, once, however the
// process died.
func TestKill(t *testing.T) {
	for round := range 5 {
		f := testFolder(t)
		cmd, pipe := startLogging(t, f)
		how := []os.Signal{os.Kill, syscall.SIGTERM}[round%2]
		time.AfterFunc(time.Duration(30+40*round)*time.Millisecond, func() { cmd.Process.Signal(how) })
		returned := lastReturned(pipe)
		cmd.Wait()
		checkKilled(t, f, returned)
	}
}

func lastReturned(pipe io.Reader) map[string]int64 {
	out := map[string]int64{}
	in := bufio.NewScanner(pipe)
	for in.Scan() {
		worker, step, ok := strings.Cut(in.Text(), " ")
		if n, err := strconv.ParseInt(step, 10, 64); ok && err == nil {
			out["w"+worker] = max(out["w"+worker], n)
		}
	}
	return out
}

func checkKilled(t *testing.T, f *Folder, returned map[string]int64) {
	t.Helper()
	ids, err := f.Writers()
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 {
		if len(returned) != 0 {
			t.Errorf("no writer, but %v were logged", returned)
		}
		return
	}
	got, res := tailRead(t, f.WriterPath(ids[0]), ids[0])
	if res.progress != End || len(res.skipped) > 4 {
		t.Errorf("a dead writer ends with %v, %d records torn", res.progress, len(res.skipped))
	}
	for worker, last := range returned {
		for step := range last {
			if n := got[cell{worker, step, uint64(step)}]; n != 1 {
				t.Fatalf("point %d of %s was read %d times; up to %d had returned", step, worker, n, last)
			}
		}
	}
}
