//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/test/rig"
)

const (
	steps = 100
	pause = 5 * time.Millisecond // between them
	// late is more than init waits for an answer.
	late = 1500 * time.Millisecond
)

// A program that is started again goes on after its last step, and replaces none, however
// the server was. The first process of each is killed.
func TestRestarts(t *testing.T) {
	for _, language := range []string{"python", "go"} {
		for name, weather := range map[string]func(*restarts){
			"up":     func(*restarts) {},
			"away":   (*restarts).away,
			"slow":   func(r *restarts) { r.proxy.Late(late) },
			"killed": (*restarts).killed,
		} {
			t.Run(language+" "+name, func(t *testing.T) {
				t.Parallel()
				m := rig.New(t)
				server := m.Serve(t)
				r := &restarts{t: t, rig: m, server: server, proxy: rig.NewProxy(t, server), language: language, begun: func() {}}
				m.Setenv("KYMOGRAM_SERVER=" + r.proxy.Address)
				m.Setenv("KYMOGRAM_API_KEY=" + server.Key(t))
				for life := range 3 {
					weather(r)
					r.life(life == 0)
					r.change.Wait()
				}
				r.check()
			})
		}
	}
}

type restarts struct {
	t        *testing.T
	rig      *rig.Rig
	server   *rig.Server
	proxy    *rig.Proxy
	language string
	logged   int    // steps, by what the processes said
	begun    func() // when the program knows where to begin
	change   sync.WaitGroup
}

// away: the server comes when the program waits for it already, and goes when it trains.
func (r *restarts) away() {
	r.proxy.Change(rig.Refuse)
	r.begun = func() { r.proxy.Change(rig.Refuse) }
	r.change.Go(func() {
		time.Sleep(late)
		r.proxy.Change(rig.Fair)
	})
}

// killed: the server dies in the middle of the training, and comes back later.
func (r *restarts) killed() {
	r.change.Go(func() {
		time.Sleep(steps * pause / 2)
		r.server.Kill(r.t)
		time.Sleep(late)
		r.server.Restart(r.t)
	})
}

// life runs the program once. A killed process may have logged one step more than it said.
func (r *restarts) life(kill bool) {
	r.t.Helper()
	count := steps
	if kill {
		count = 1 << 30
	}
	program := r.command(strconv.Itoa(count))
	said := start(r.t, program)
	first, last := -1, 0
	for said.Scan() {
		step, err := strconv.Atoi(said.Text())
		if err != nil {
			r.t.Fatalf("the program said %q", said.Text())
		}
		if first < 0 {
			first, step = step, step-1
			r.begun()
		}
		if last = step; kill && last >= first+steps {
			_ = program.Process.Kill() // what it said until then is read
		}
	}
	if err := program.Wait(); err != nil && !kill {
		r.t.Fatalf("the program ended with %v", err)
	}
	if first < r.logged || first > r.logged+1 || last < first+steps-1 {
		r.t.Fatalf("the program began at %d and ended at %d; %d steps were logged before", first, last, r.logged)
	}
	r.logged = last + 1
}

func (r *restarts) command(count string) *exec.Cmd {
	if r.language == "python" {
		return r.rig.Python(r.t, "test/e2e/restart.py", count)
	}
	program := filepath.Join(r.rig.Dir, "restart")
	if out, err := exec.Command("go", "build", "-o", program, "./restart").CombinedOutput(); err != nil {
		r.t.Fatalf("build: %v\n%s", err, out)
	}
	return r.rig.Command(r.t, program, count)
}

// check compares the points of all attempts with what was said: each step once.
func (r *restarts) check() {
	r.t.Helper()
	r.proxy.Late(0)
	r.proxy.Change(rig.Fair)
	r.rig.Sync(r.t)
	c := r.server.Client(r.t)
	runs := c.Runs(r.t, "default/default")
	if len(runs) != 1 {
		r.t.Fatalf("%d runs", len(runs))
	}
	found := map[string]int{}
	for _, step := range c.Points(r.t, runs[0].ID, "loss", "ML_STEP", nil)["step"] {
		found[rig.Text(step)]++
	}
	for step := range r.logged {
		if n := found[strconv.Itoa(step)]; n != 1 {
			r.t.Errorf("step %d was logged once and is there %d times", step, n)
		}
	}
	if len(found) != r.logged {
		r.t.Errorf("%d steps are there, %d were logged", len(found), r.logged)
	}
}

// A program with a fixed name is started three times, as jobs of their own: they are three
// runs, however the server was.
func TestStartsAgain(t *testing.T) {
	for name, weather := range map[string]func(*rig.Proxy){
		"up":   func(*rig.Proxy) {},
		"away": func(p *rig.Proxy) { p.Change(rig.Refuse) },
		"slow": func(p *rig.Proxy) { p.Late(late) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			server := r.Serve(t)
			proxy := rig.NewProxy(t, server)
			weather(proxy)
			for i := range 3 {
				run, err := kymogram.Init(t.Context(), kymogram.Options{
					Server: proxy.Address, APIKey: server.Key(t), SpoolDir: r.Spool,
					RunName: "hello", OrchestrationID: fmt.Sprint("job ", i), CloseTimeout: time.Second,
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := run.Log("loss", float64(i), kymogram.Step(0)); err != nil {
					t.Fatal(err)
				}
				if err := run.Close(t.Context()); name == "up" {
					r.Closed(t, err)
				}
			}
			proxy.Late(0)
			proxy.Change(rig.Fair)
			r.Sync(t)
			c := server.Client(t)
			var found []string
			for _, called := range []string{"hello", "hello-2", "hello-3"} {
				run := c.Run(t, "default/default", called)
				values := c.Points(t, run.ID, "loss", "ML_STEP", nil)["value"]
				if run.Status != "finished" || len(values) != 1 {
					t.Errorf("%s is %s with %v", called, run.Status, values)
				}
				for _, v := range values {
					found = append(found, rig.Text(v))
				}
			}
			if name != "up" {
				slices.Sort(found) // runs that wait together take their names as they arrive
			}
			if want := []string{"0", "1", "2"}; !slices.Equal(found, want) {
				t.Errorf("the runs hold %v, want %v", found, want)
			}
		})
	}
}
