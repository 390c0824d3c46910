//go:build e2e

package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

var (
	chaosFor  = flag.Duration("chaos", 20*time.Second, "how long TestChaos goes on")
	chaosSeed = flag.Uint64("chaos-seed", 0, "its seed (default: the time)")
)

// chaos is a job of a few loops, its agent, its server and the way between them,
// and what a seed decides to do to them.
type chaos struct {
	t      *testing.T
	rig    *rig.Rig
	server *rig.Server
	proxy  *rig.Proxy
	dice   *rand.Rand
	stop   string

	loops  []*chaosLoop
	moved  []string // spools that were moved away
	backup string
	said   map[string]int // what was done, and how often
}

// chaosLoop is a loop and what may have become of its points.
type chaosLoop struct {
	*rig.Loop
	run    string
	killed bool
	// restored: the server went back behind what it had acknowledged of this loop.
	restored bool
	// over: the loop had ended by then, so nobody is left who could tell.
	over bool
}

// TestChaos does to a job whatever a seed says, for as long as asked: loops,
// agent and server are killed, the server comes back elsewhere or from an older
// backup, the way to it turns bad, another takes the spool over, the spool moves,
// clocks are wrong. At the end every point whose log() returned is there once, or
// its run's ledger says that it went with the lost disk.
func TestChaos(t *testing.T) {
	c := newChaos(t)
	for i := range 4 {
		c.startLoop(i)
	}
	acts := []struct {
		name   string
		weight int
		do     func()
	}{
		{"kill the agent", 4, c.killAgent},
		{"kill the server", 4, c.killServer},
		{"move the server", 2, c.moveServer},
		{"stop the server for a while", 2, c.serverAway},
		{"bad weather", 6, c.badWeather},
		{"kill a loop", 3, c.killLoop},
		{"kill all at once", 1, c.killGroup},
		{"sync beside the agent", 2, c.syncBeside},
		{"move the spool", 1, c.moveSpool},
		{"back the server up", 1, c.backUp},
		{"restore the server", 1, c.restore},
	}
	if c.dice.IntN(2) == 0 { // every second seed loses no disk: then nothing may be missing
		acts = acts[:len(acts)-2]
	}
	var bag []int
	for i, act := range acts {
		for range act.weight {
			bag = append(bag, i)
		}
	}
	for end := time.Now().Add(*chaosFor); time.Now().Before(end) && !t.Failed(); {
		act := acts[bag[c.dice.IntN(len(bag))]]
		c.said[act.name]++
		act.do()
		time.Sleep(time.Duration(c.dice.IntN(600)) * time.Millisecond)
	}
	c.settle()
	c.judge()
}

func newChaos(t *testing.T) *chaos {
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos-seed %d", seed)
	r := rig.New(t)
	server := r.Serve(t)
	r.Setenv("KYMOGRAM_API_KEY=" + server.Key(t))
	return &chaos{
		t: t, rig: r, server: server, proxy: rig.NewProxy(t, server), dice: rand.New(rand.NewPCG(seed, 0)),
		stop: filepath.Join(r.Dir, "stop"), said: map[string]int{},
	}
}

// startLoop starts one more loop; every third has a clock that is a year off.
func (c *chaos) startLoop(i int) {
	var env []string
	if lib, err := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1"); err == nil && len(lib) == 1 && i%3 == 2 {
		env = []string{"LD_PRELOAD=" + lib[0], "FAKETIME=" + []string{"-400d", "+400d"}[i%2]}
	}
	run := fmt.Sprintf("chaos-%d", i)
	loop := c.rig.StartLoopIn(c.t, env, c.proxy.Address, run, "--pause", "0.002", "--until", c.stop)
	loop.WaitOpen(c.t)
	c.loops = append(c.loops, &chaosLoop{Loop: loop, run: run})
}

func (c *chaos) alive() (out []*chaosLoop) {
	for _, l := range c.loops {
		if !l.killed {
			out = append(out, l)
		}
	}
	return out
}

func (c *chaos) killAgent() { c.rig.KillAgent(c.t) }

func (c *chaos) killServer() {
	c.server.Kill(c.t)
	c.server.Restart(c.t)
}

func (c *chaos) moveServer() {
	c.server.Kill(c.t)
	c.server.Move(c.t)
	c.proxy.Lead(c.server)
}

func (c *chaos) serverAway() {
	c.server.Stop(c.t)
	time.Sleep(time.Duration(c.dice.IntN(3000)) * time.Millisecond)
	c.server.Restart(c.t)
}

func (c *chaos) badWeather() {
	weather := rig.Slow + rig.Weather(c.dice.IntN(int(rig.Refuse)))
	c.said[weather.String()]++
	c.proxy.Change(weather)
	time.Sleep(time.Duration(500+c.dice.IntN(3000)) * time.Millisecond)
	c.proxy.Change(rig.Fair)
}

func (c *chaos) kill(l *chaosLoop) {
	l.Kill()
	l.killed = true
}

func (c *chaos) killLoop() {
	alive := c.alive()
	c.kill(alive[c.dice.IntN(len(alive))])
	c.startLoop(len(c.loops))
}

func (c *chaos) killGroup() {
	n := 0
	for _, l := range c.alive() {
		c.kill(l)
		n++
	}
	c.rig.KillAgent(c.t)
	for range n {
		c.startLoop(len(c.loops))
	}
}

// syncBeside takes the spool from the agent, and is killed some time later.
func (c *chaos) syncBeside() {
	cmd := c.rig.Command(c.t, c.rig.Binary(), "sync", "--spool", c.rig.Spool)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	time.Sleep(time.Duration(c.dice.IntN(1500)) * time.Millisecond)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed, or at its end: both are well
}

// moveSpool is a job that ends and whose spool goes to another place.
func (c *chaos) moveSpool() {
	n := len(c.alive())
	for _, l := range c.alive() {
		c.kill(l)
	}
	for c.rig.KillAgent(c.t) {
	}
	to := filepath.Join(c.rig.Dir, "moved-"+strconv.Itoa(len(c.moved)))
	if err := os.Rename(c.rig.Spool, to); err != nil {
		c.t.Fatal(err)
	}
	c.moved = append(c.moved, to)
	for range n {
		c.startLoop(len(c.loops))
	}
}

func (c *chaos) backUp() {
	c.backup = filepath.Join(c.rig.Dir, "backup-"+strconv.Itoa(c.said["back the server up"]))
	c.rig.CLI(c.t, "data", "backup", "--data", c.server.Data, "--to", c.backup)
}

// restore loses the server's disk and goes on from the last backup, if there is one.
func (c *chaos) restore() {
	if c.backup == "" {
		return
	}
	c.said["restored"]++
	for _, l := range c.loops {
		l.restored, l.over = true, l.over || l.killed
	}
	c.server.Kill(c.t)
	lost := filepath.Join(c.rig.Dir, "lost-"+strconv.Itoa(c.said["restored"]))
	if err := os.Rename(c.server.Data, lost); err != nil {
		c.t.Fatal(err)
	}
	c.rig.CLI(c.t, "data", "restore", "--from", c.backup, "--data", c.server.Data)
	c.server.Restart(c.t)
	c.proxy.Lead(c.server)
}

// settle lets everything come to its end in fair weather.
func (c *chaos) settle() {
	c.proxy.Change(rig.Fair)
	end(c.t, c.stop)
	for _, l := range c.alive() {
		l.Wait(c.t)
	}
	for _, spool := range append(c.moved, c.rig.Spool) {
		c.rig.CLI(c.t, "sync", "--spool", spool, "--timeout", "60s")
	}
}

// judge counts what the server has.
func (c *chaos) judge() {
	client, total, lost := c.server.Client(c.t), 0, 0
	for _, l := range c.loops {
		total += l.Returned()
		atMost := l.Returned()
		if l.killed {
			atMost++ // the call that was under way may have written its point
		}
		switch {
		case l.Returned() == 0:
		case l.restored:
			lost += c.judgeRestored(client, l, atMost)
		default:
			mustHold(c.t, client, l.run, l.Returned(), atMost)
		}
	}
	c.t.Logf("%d points of %d loops, none lost or doubled but %d that the backups were too old for; %v", total, len(c.loops), lost, c.said)
}

// judgeRestored: no point is there twice, and where the loop went on after the
// restore, no more is missing than the ledger tells of. Of one that had ended,
// nobody is left who could tell.
func (c *chaos) judgeRestored(client *rig.Client, l *chaosLoop, atMost int) (missing int) {
	var list []rig.Run
	for _, run := range client.Runs(c.t, project) {
		if run.Name == l.run {
			list = append(list, run)
		}
	}
	if len(list) == 0 && l.over {
		return l.Returned() // it had ended, and the backup is older
	}
	if len(list) != 1 {
		c.t.Errorf("%d runs named %s", len(list), l.run)
		return 0
	}
	var doc struct {
		Ledger struct {
			Skipped []struct {
				First, Last int
				Reason      string
			}
		}
	}
	client.Get(c.t, "/api/v1/runs/"+list[0].ID, nil, &doc)
	told := 0
	for _, s := range doc.Ledger.Skipped {
		told += s.Last - s.First + 1
	}
	seen := map[int]bool{}
	var values []any
	for _, series := range client.Series(c.t, list[0].ID) { // the machine's are there, too
		if series.Metric == "value" {
			values = client.Points(c.t, list[0].ID, "value", "ML_STEP", nil)["value"]
		}
	}
	for _, v := range values {
		n, err := strconv.Atoi(rig.Text(v))
		if err != nil || seen[n] || n >= atMost {
			c.t.Errorf("%s: point %v is there twice or was never logged (%v)", l.run, v, err)
		}
		seen[n] = true
	}
	for n := range l.Returned() {
		if !seen[n] {
			missing++
		}
	}
	if missing > told && !l.over {
		c.t.Errorf("%s: %d of %d points are missing, the ledger tells of %d records: %+v", l.run, missing, l.Returned(), told, doc.Ledger.Skipped)
	}
	return missing
}
