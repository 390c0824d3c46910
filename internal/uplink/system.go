package uplink

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/collect"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// job is what system metrics are collected for: a run, as the writers of this
// machine name it.
type job struct{ server, workspace, project, run, orchestration string }

// observers collect the system metrics of the runs of a folder: one goroutine a
// run, that writes samples into the spool as a writer of its own, so that they
// are delivered like any other point. What is observed is never held up.
type observers struct {
	mu   sync.Mutex
	jobs map[job]*observer
}

// observer is the machine as one run's processes see it.
type observer struct {
	mu      sync.Mutex
	members map[model.WriterID]member
}

type member struct {
	dir string
	pid int
}

// observe makes sure that a writer's run is observed, if the writer wants it.
func (d *Deliverer) observe(ctx context.Context, w *delivery, group *sync.WaitGroup, stop chan struct{}) {
	asked := w.open.System
	if asked == nil || d.opts.Once || model.IsObserver(w.open.Open.SDK) || !spool.WriterAlive(w.dir) {
		return
	}
	open := &w.open.Open
	key := job{w.open.Server, open.Workspace, open.Project, open.RunName, open.OrchestrationID}
	d.observers.mu.Lock()
	defer d.observers.mu.Unlock()
	o := d.observers.jobs[key]
	if o == nil {
		o = &observer{members: map[model.WriterID]member{}}
		d.observers.jobs[key] = o
		first, every := w.open, max(asked.Interval(), spool.LeastSystemInterval)
		group.Go(func() {
			s := newSystemLog(d, first)
			defer s.close()
			d.watchSystem(ctx, stop, key, o, s, every)
		})
	}
	o.add(w.id, member{w.dir, int(open.PID)})
}

func (o *observer) add(id model.WriterID, m member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.members[id] = m
}

// alive lists the processes that still write.
func (o *observer) alive() (pids []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, m := range o.members {
		if !spool.WriterAlive(m.dir) {
			delete(o.members, id)
			continue
		}
		pids = append(pids, m.pid)
	}
	return pids
}

// leave ends the observation unless a process came meanwhile.
func (d *Deliverer) leave(key job, o *observer) (over bool) {
	d.observers.mu.Lock()
	defer d.observers.mu.Unlock()
	if len(o.alive()) > 0 {
		return false
	}
	delete(d.observers.jobs, key)
	return true
}

// forget makes room for the next observation of a job.
func (d *Deliverer) forget(key job) {
	d.observers.mu.Lock()
	defer d.observers.mu.Unlock()
	delete(d.observers.jobs, key)
}

// watchSystem samples until no process of the job is left, or ctx or stop ends.
// The first sample is logged after the first interval: shorter runs have none.
func (d *Deliverer) watchSystem(ctx context.Context, stop chan struct{}, key job, o *observer, s *systemLog, every time.Duration) {
	s.read(ctx, o.alive()) // utilization is that since the reading before
	for next := time.Now().Add(every); ; {
		select {
		case <-ctx.Done():
			d.forget(key)
			return
		case <-stop:
			d.forget(key)
			return
		case <-time.After(d.ticks.next(min(every, scanEvery))):
		}
		pids := o.alive()
		if len(pids) == 0 && d.leave(key, o) {
			return
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(every)
			s.sample(ctx, pids)
		}
	}
}

// systemLog writes samples as points without a step: their axis is time.
type systemLog struct {
	d         *Deliverer
	first     spool.Open
	w         *spool.Writer // from the first sample on
	host      *collect.Collector
	processes map[int]*collect.Collector
	series    map[string]*spool.Series
}

func newSystemLog(d *Deliverer, first spool.Open) *systemLog {
	return &systemLog{
		d: d, first: first, host: collect.New(collect.Options{Host: first.Open.Host, Disk: d.folder.Path}),
		processes: map[int]*collect.Collector{}, series: map[string]*spool.Series{},
	}
}

// open makes the observer's writer: it joins the attempt of what it observes.
func (s *systemLog) open() error {
	if s.w != nil {
		return nil
	}
	open := &s.first.Open
	parent := open.Writer
	request := model.OpenRequest{
		Workspace: open.Workspace, Project: open.Project, RunName: open.RunName, LocalRun: open.LocalRun,
		OrchestrationID: open.OrchestrationID, ResumeStrategy: open.ResumeStrategy, RestartCount: open.RestartCount,
		ParentAttempt: &parent, Host: open.Host, PID: int64(os.Getpid()), OpenedNs: time.Now().UnixNano(),
		Offline: true, SDK: model.ObserverSDK + s.d.opts.Version,
	}
	_, _ = rand.Read(request.Writer[:]) // never fails, see crypto/rand
	var err error
	if s.w, err = spool.Create(s.d.folder, s.first.Server, request, spool.WriterOptions{Pace: s.first.Pace}); err != nil {
		return err
	}
	return s.w.Updates(s.describe())
}

// describe is what is said of the machine once, under the names of Metrana 1.11.
// The cards are those of the machine; which of them the run may use says the
// CUDA_VISIBLE_DEVICES that it came with.
func (s *systemLog) describe() (out []model.Update) {
	set := func(path string, value *model.Value) {
		out = append(out, model.Update{Op: model.OpSetAttribute, TimeNs: time.Now().UnixNano(), Path: path, Value: value})
	}
	set("system/platform", model.StringValue(runtime.GOOS))
	cards, err := s.host.Cards()
	if err != nil {
		s.d.opts.Log.Debug("the graphics cards cannot be counted", "error", err)
	}
	if cards.All == 0 {
		return out
	}
	set("system/gpu/host_device_count", model.IntValue(int64(cards.All)))
	set("system/gpu/mig_partitioned_count", model.IntValue(int64(cards.Partitioned)))
	if visible, known := visibleCards(s.first.Open.Initial, cards.All); known {
		set("system/gpu/visible_count", model.IntValue(int64(visible)))
	}
	return out
}

// visibleCards counts the cards that a process may use; it is not known of one
// that said nothing of its environment.
func visibleCards(initial []model.Update, all int) (n int, known bool) {
	n = all
	for i := range initial {
		u := &initial[i]
		known = known || strings.HasPrefix(u.Path, "host/")
		if u.Path != "env/CUDA_VISIBLE_DEVICES" || u.Value == nil {
			continue
		}
		n = 0
		for device := range strings.SplitSeq(u.Value.Str, ",") {
			if device = strings.TrimSpace(device); device == "" || strings.HasPrefix(device, "-") {
				break // CUDA looks no further
			}
			n++
		}
	}
	return n, known
}

// sample logs the machine and the processes once: a sample never fails a run.
func (s *systemLog) sample(ctx context.Context, pids []int) {
	timeNs := time.Now().UnixNano()
	samples := s.read(ctx, pids)
	err := s.open()
	for i := 0; i < len(samples) && err == nil; i++ {
		err = s.log(&samples[i], timeNs)
	}
	if err != nil {
		s.d.opts.Log.Warn("system metrics are not logged", "run", s.first.Open.RunName, "error", err)
	}
}

// read reads what can be read; the rest is left out.
func (s *systemLog) read(ctx context.Context, pids []int) []collect.Sample {
	samples, err := s.host.Collect(ctx)
	for _, pid := range pids {
		more, perr := s.process(pid).Collect(ctx)
		for i := range more {
			if strings.HasPrefix(more[i].Name, "system/process/") {
				samples = append(samples, more[i])
			}
		}
		err = errors.Join(err, perr)
	}
	if err != nil {
		s.d.opts.Log.Debug("some system metrics cannot be read", "error", err)
	}
	return samples
}

// process reads one process; the machine around it is read once, by host.
func (s *systemLog) process(pid int) *collect.Collector {
	if s.processes[pid] == nil {
		s.processes[pid] = collect.New(collect.Options{Host: s.first.Open.Host, PIDs: []int{pid}, NvidiaSMI: "-"})
	}
	return s.processes[pid]
}

func (s *systemLog) log(one *collect.Sample, timeNs int64) error {
	key := model.SeriesKey{Metric: one.Name, Scale: model.ScaleStep, Labels: one.Labels}
	text := key.String()
	known := s.series[text]
	if known == nil {
		var err error
		if known, err = s.w.Series(model.KindFloat, key); err != nil {
			return err
		}
		s.series[text] = known
	}
	return s.w.Point(known, 0, 0, timeNs, math.Float64bits(one.Value))
}

func (s *systemLog) close() {
	if s.w == nil {
		return
	}
	err := s.w.Updates([]model.Update{{Op: model.OpClose, TimeNs: time.Now().UnixNano(), Text: string(model.StatusFinished)}})
	_, cerr := s.w.Close()
	if err = errors.Join(err, cerr, s.w.Status().Close()); err != nil {
		s.d.opts.Log.Debug("end system metrics", "error", err)
	}
}
