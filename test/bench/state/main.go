// Command state measures signed state records: verifications a second, what
// judging costs that was judged before, records of one hotkey on the disk of a real
// server, and when another reader sees one: `make bench-state`.
//
// It runs the binary as users do and signs with a key of its own.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "state:", err)
		os.Exit(1)
	}
}

func row(name, format string, args ...any) {
	fmt.Printf("%-44s %s\n", name, fmt.Sprintf(format, args...))
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("state", flag.ContinueOnError)
	binary := flags.String("binary", "bin/kymogram", "the server")
	records := flags.Int("records", 2_000, "records of one hotkey to put")
	if err := flags.Parse(args); err != nil {
		return err
	}
	key, err := wallet.NewKey([32]byte{1})
	if err != nil {
		return err
	}
	if err := judging(ctx, key); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kymogram-state-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	s, err := boot(ctx, *binary, folder)
	if err != nil {
		return err
	}
	defer s.stop()
	w := &writer{server: s, key: key}
	if err := w.open(ctx); err != nil {
		return err
	}
	if err := w.fill(ctx, *records); err != nil {
		return err
	}
	return w.seen(ctx, 20)
}

// record is the next one of a run.
func record(sequence uint64, previous state.Hash) state.Record {
	now := uint64(time.Now().UnixMilli())
	return state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "bench", Project: "net", Run: "run"},
		Sequence: sequence, Previous: previous, TimeMs: now, ExpiresMs: now + 3_600_000, PayloadType: state.ConfigPayload,
	}
}

// payload is about what a validator of 256 miners says.
func payload() []byte {
	stats := map[string]any{}
	for uid := range 256 {
		stats[strconv.Itoa(uid)] = map[string]any{"uid": uid, "gpu_specs": map[string]any{"gpu_name": "NVIDIA H100 80GB HBM3", "num_gpus": 8}, "score": 92.5, "allocated": true, "own_score": true}
	}
	text, _ := json.Marshal(map[string]any{"stats": stats}) // numbers, texts and flags
	return text
}

// judging measures the reader alone.
func judging(ctx context.Context, key *wallet.Key) error {
	body := payload()
	e, err := state.Seal(record(1, state.Hash{}), body, key)
	if err != nil {
		return err
	}
	perSecond := func(n int, memory func() state.Memory) (float64, error) {
		r := state.Reader{Expect: state.Expect{Anywhere: true}, Memory: memory(), Clock: func() state.Clock { return state.Clock{Now: time.Now()} }}
		begin := time.Now()
		for range n {
			if j, err := r.Check(ctx, e); err != nil || j.Verdict != state.Verified {
				return 0, fmt.Errorf("%s: %w", j.Reason, err)
			}
			r.Memory = memory()
		}
		return float64(n) / time.Since(begin).Seconds(), nil
	}
	first, err := perSecond(5_000, state.NewMemory)
	if err != nil {
		return err
	}
	kept := state.NewMemory()
	again, err := perSecond(20_000, func() state.Memory { return kept })
	row("verifications a second, one core", "%9.0f (payload %d kB)", first, len(body)/1000)
	row("the same record again, a second", "%9.0f", again)
	return err
}

type server struct {
	folder, address, key string
	cmd                  *exec.Cmd
}

func boot(ctx context.Context, binary, folder string) (*server, error) {
	s := &server{folder: folder, cmd: exec.CommandContext(ctx, binary, "serve", "--data", filepath.Join(folder, "data"), "--http", "127.0.0.1:0", "--state-log", "--log-level", "warn")}
	s.cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line)
	if err != nil || m == nil {
		return nil, fmt.Errorf("the ready line is %q: %w", line, err)
	}
	s.address = "http://" + m[1]
	key, err := os.ReadFile(filepath.Join(folder, "data", "admin.key"))
	s.key = strings.TrimSpace(string(key))
	return s, err
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}

func (s *server) do(ctx context.Context, method, path string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, s.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s", method, path, response.Status, text)
	}
	return json.Unmarshal(text, into)
}

// writer signs the records of one run.
type writer struct {
	*server
	key      *wallet.Key
	run      string
	sequence uint64
	head     state.Hash
}

func (w *writer) open(ctx context.Context) error {
	var opened struct{ Run string }
	err := w.do(ctx, http.MethodPost, "/api/v1/open", []byte(`{"writer":"00000000000000000000000000000001","workspace":"bench","project":"net","run_name":"run","orchestration_id":"o","resume_strategy":"allow","host":"h","pid":1,"opened_ns":1}`), &opened)
	w.run = opened.Run
	return err
}

func (w *writer) put(ctx context.Context, payload []byte) error {
	e, err := state.Seal(record(w.sequence+1, w.head), payload, w.key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	w.sequence, w.head = w.sequence+1, e.Hash()
	return w.do(ctx, http.MethodPost, "/api/v1/runs/"+w.run+"/state", body, new(any))
}

// fill puts many records and looks at the disk and at the time of each half.
func (w *writer) fill(ctx context.Context, n int) error {
	half := func() (time.Duration, error) {
		begin := time.Now()
		for range n / 2 {
			if err := w.put(ctx, []byte(`{"allocated_hotkeys":[]}`)); err != nil {
				return 0, err
			}
		}
		return time.Since(begin), nil
	}
	first, err := half()
	if err != nil {
		return err
	}
	second, err := half()
	if err != nil {
		return err
	}
	row(fmt.Sprintf("put, each of the first %d records", n/2), "%9.2f ms", first.Seconds()*2e3/float64(n))
	row("put, each of the last as many", "%9.2f ms", second.Seconds()*2e3/float64(n))
	var bytes int64
	for _, name := range []string{"state.db", "state.db-wal"} {
		if info, err := os.Stat(filepath.Join(w.folder, "data", name)); err == nil {
			bytes += info.Size()
		}
	}
	row("disk, each record", "%9.0f B", float64(bytes)/float64(n))
	begin := time.Now()
	if err := w.do(ctx, http.MethodGet, "/api/v1/projects/bench/net/log/head", nil, new(any)); err != nil {
		return err
	}
	row(fmt.Sprintf("tree head over %d new records", n), "%9.0f ms", time.Since(begin).Seconds()*1e3)
	return nil
}

// seen measures from signing to the verdict of a reader that waits.
func (w *writer) seen(ctx context.Context, times int) error {
	body := payload()
	r := state.Reader{Expect: state.Expect{Anywhere: true}, Memory: state.NewMemory(), Clock: func() state.Clock { return state.Clock{Now: time.Now()} }}
	var took []time.Duration
	for range times {
		done := make(chan error, 1)
		since := w.sequence
		go func() {
			var page state.Page
			err := w.do(ctx, http.MethodGet, fmt.Sprintf("/api/v1/projects/bench/net/state?wait=30&since=%d", since), nil, &page)
			if err == nil && len(page.Entries) != 1 {
				err = fmt.Errorf("%d records instead of one", len(page.Entries))
			}
			if err == nil {
				var j state.Judgement
				if j, err = r.Check(ctx, &page.Entries[0].Envelope); j.Verdict != state.Verified {
					err = fmt.Errorf("%s: %w", j.Reason, err)
				}
			}
			done <- err
		}()
		time.Sleep(50 * time.Millisecond) // the reader waits by then
		begin := time.Now()
		if err := w.put(ctx, body); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	row("signed to verified by another reader, median", "%9.1f ms", took[len(took)/2].Seconds()*1e3)
	row(fmt.Sprintf("… worst of %d", times), "%9.1f ms", took[len(took)-1].Seconds()*1e3)
	return nil
}
