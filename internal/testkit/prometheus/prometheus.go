// Package prometheus runs Debian's Prometheus and its promtool in tests, as a
// second reader of what Kymogram exposes. Where they are not installed the test
// says so and is skipped; tools/prepare installs them.
package prometheus

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program finds prometheus or promtool, or skips the test.
func Program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: apt-get install prometheus", name)
	}
	return path
}

// Promtool runs promtool in a folder with an input and gives what it says; the
// test fails when promtool finds a fault.
func Promtool(t *testing.T, folder, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), Program(t, "promtool"), args...)
	cmd.Dir, cmd.Stdin = folder, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Server is a Prometheus that runs until the test ends.
type Server struct {
	t       *testing.T
	address string
}

var listening = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// Start runs Prometheus with a configuration, files of which it may name
// relatively by what files holds, and with more flags.
func Start(t *testing.T, config string, files map[string]string, flags ...string) *Server {
	t.Helper()
	program, folder := Program(t, "prometheus"), t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("prometheus.yml", config)
	for name, text := range files {
		write(name, text)
	}
	cmd := exec.Command(program, append(flags, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0", "--log.level=info")...)
	cmd.Dir = folder
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-said
		_ = cmd.Wait()
	})
	s := &Server{t: t}
	ready := make(chan string, 1)
	var log strings.Builder
	go func() {
		defer close(said)
		defer close(ready)
		address, up := "", false // it says both in any order
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address = m[1]
			}
			up = up || strings.Contains(lines.Text(), "Server is ready")
			if up && address != "" {
				ready <- address
				break
			}
		}
		_, _ = io.Copy(io.Discard, errs)
	}()
	select {
	case s.address = <-ready:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
	}
	if s.address == "" {
		<-said
		t.Fatalf("prometheus does not start:\n%s", log.String())
	}
	return s
}

// URL is the server's address.
func (s *Server) URL() string { return "http://" + s.address }

// Sample is one series of an answer.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query answers an instant query.
func (s *Server) Query(expression string) []Sample {
	s.t.Helper()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	s.read("/api/v1/query?query="+url.QueryEscape(expression), &answer)
	var out []Sample
	for _, r := range answer.Data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, Sample{r.Metric, value})
	}
	return out
}

// Target is one address that Prometheus scrapes.
type Target struct {
	ScrapeURL string
	Health    string
	LastError string
	Labels    map[string]string
}

// Targets lists what is being scraped.
func (s *Server) Targets() []Target {
	s.t.Helper()
	var answer struct {
		Data struct{ ActiveTargets []Target }
	}
	s.read("/api/v1/targets?state=active", &answer)
	return answer.Data.ActiveTargets
}

func (s *Server) read(path string, into any) {
	s.t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Get("http://" + s.address + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		s.t.Fatal(err)
	}
}

// Await queries until the answer is as wanted; a minute without fails the test.
func (s *Server) Await(expression string, wanted func([]Sample) bool) []Sample {
	s.t.Helper()
	var last []Sample
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if last = s.Query(expression); wanted(last) {
			return last
		}
	}
	s.t.Fatalf("%s is %v after a minute; targets %+v", expression, last, s.Targets())
	return nil
}
