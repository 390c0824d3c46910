package uplink

import (
	"context"
	"crypto/rand"
	"math"
	"os"
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
			if err := d.watchSystem(ctx, stop, key, o, first, every); err != nil {
				d.opts.Log.Warn("system metrics are not logged", "run", open.RunName, "error", err)
			}
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

// watchSystem samples until no process of the job is left, or ctx or stop ends.
func (d *Deliverer) watchSystem(ctx context.Context, stop chan struct{}, key job, o *observer, first spool.Open, every time.Duration) error {
	forget := func() {
		d.observers.mu.Lock()
		defer d.observers.mu.Unlock()
		delete(d.observers.jobs, key)
	}
	s, err := newSystemLog(d.folder, first, d.opts.Version)
	if err != nil {
		// The job stays in the table: it is not tried again every quarter of a second.
		return err
	}
	defer s.close(d)
	look := time.NewTicker(min(every, scanEvery))
	defer look.Stop()
	for next := time.Now(); ; {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(every)
			s.sample(ctx, o.alive(), d)
		}
		select {
		case <-ctx.Done():
			forget()
			return nil
		case <-stop:
			forget()
			return nil
		case <-look.C:
		}
		if len(o.alive()) == 0 && d.leave(key, o) {
			return nil
		}
	}
}

// systemLog writes samples as points without a step: their axis is time.
type systemLog struct {
	w         *spool.Writer
	host      *collect.Collector
	hostName  string
	processes map[int]*collect.Collector
	series    map[string]*spool.Series
}

func newSystemLog(folder *spool.Folder, first spool.Open, version string) (*systemLog, error) {
	open := first.Open
	parent, host := open.Writer, open.Host
	request := model.OpenRequest{
		Workspace: open.Workspace, Project: open.Project, RunName: open.RunName, LocalRun: open.LocalRun,
		OrchestrationID: open.OrchestrationID, ResumeStrategy: open.ResumeStrategy, RestartCount: open.RestartCount,
		ParentAttempt: &parent, Host: host, PID: int64(os.Getpid()), OpenedNs: time.Now().UnixNano(),
		Offline: true, SDK: model.ObserverSDK + version,
	}
	_, _ = rand.Read(request.Writer[:]) // never fails, see crypto/rand
	w, err := spool.Create(folder, first.Server, request, spool.WriterOptions{Pace: first.Pace})
	if err != nil {
		return nil, err
	}
	return &systemLog{
		w: w, host: collect.New(collect.Options{Host: host, Disk: folder.Path}), hostName: host,
		processes: map[int]*collect.Collector{}, series: map[string]*spool.Series{},
	}, nil
}

// sample logs the machine and the processes once. What cannot be read is left
// out: a sample never fails a run.
func (s *systemLog) sample(ctx context.Context, pids []int, d *Deliverer) {
	timeNs := time.Now().UnixNano()
	samples, err := s.host.Collect(ctx)
	for _, pid := range pids {
		more, perr := s.process(pid).Collect(ctx)
		for _, one := range more {
			if strings.HasPrefix(one.Name, "system/process/") {
				samples = append(samples, one)
			}
		}
		if err == nil {
			err = perr
		}
	}
	if err != nil {
		d.opts.Log.Debug("some system metrics cannot be read", "error", err)
	}
	for _, one := range samples {
		if err := s.log(one, timeNs); err != nil {
			d.opts.Log.Debug("log system metrics", "error", err)
			return
		}
	}
}

// process reads one process; the machine around it is read once, by host.
func (s *systemLog) process(pid int) *collect.Collector {
	if s.processes[pid] == nil {
		s.processes[pid] = collect.New(collect.Options{Host: s.hostName, PIDs: []int{pid}, NvidiaSMI: "-"})
	}
	return s.processes[pid]
}

func (s *systemLog) log(one collect.Sample, timeNs int64) error {
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

func (s *systemLog) close(d *Deliverer) {
	err := s.w.Updates([]model.Update{{Op: model.OpClose, TimeNs: time.Now().UnixNano(), Text: string(model.StatusFinished)}})
	if _, cerr := s.w.Close(); err == nil {
		err = cerr
	}
	if serr := s.w.Status().Close(); err == nil {
		err = serr
	}
	if err != nil {
		d.opts.Log.Debug("end system metrics", "error", err)
	}
}
