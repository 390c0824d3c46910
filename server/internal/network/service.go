package network

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/kymogram/kymogram/server/internal/httpapi"
)

const (
	maxViews = 8               // projects that are kept in a parsed form
	fresh    = 2 * time.Second // of a document: verdicts change with time too
)

// Service answers queries. It does not ask who the caller is.
type Service struct {
	log     Log
	runs    Runs
	subnets *Subnets // nil without a chain
	now     func() time.Time
	drawing singleflight.Group

	mu    sync.Mutex
	views map[string]*kept
}

type kept struct {
	view *view
	used time.Time
}

// drawn is a document that was made for a moment.
type drawn struct {
	body    []byte
	index   uint64
	version int
	at      time.Time
}

// New makes a service; subnets may be nil.
func New(log Log, runs Runs, subnets *Subnets, now func() time.Time) *Service {
	return &Service{log: log, runs: runs, subnets: subnets, now: now, views: map[string]*kept{}}
}

// Network is a project's network as JSON.
func (s *Service) Network(ctx context.Context, q httpapi.NetworkQuery) ([]byte, error) {
	if q.Wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, q.Wait)
		err := s.log.Grown(waiting, q.Workspace, q.Project, q.Since)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("wait for records of %s/%s: %w", q.Workspace, q.Project, err)
		}
	}
	key := fmt.Sprintf("%s/%s", q.Workspace, q.Project)
	if q.Netuid != nil {
		key += fmt.Sprintf("/%d", *q.Netuid)
	}
	// Who asks while it is drawn gets the same document, unless it waits for a newer one.
	for again := q.Wait > 0; ; again = false {
		found, err, _ := s.drawing.Do(key, func() (any, error) { return s.answer(context.WithoutCancel(ctx), q) })
		if err != nil {
			return nil, err
		}
		if d := found.(drawn); d.index > q.Since || !again {
			return d.body, nil
		}
	}
}

// answer takes one turn in judging a project and draws what is known then.
func (s *Service) answer(ctx context.Context, q httpapi.NetworkQuery) (drawn, error) {
	v, now := s.view(q.Workspace+"/"+q.Project), s.now()
	t := newTurn()
	p, err := s.advance(ctx, v, q, now, t)
	if err != nil {
		return drawn{}, err
	}
	key, version := -1, 0
	netuid := q.Netuid
	if netuid == nil {
		netuid = p.mostUsed()
	}
	var net *subnet
	if netuid != nil {
		key = int(*netuid)
		if s.subnets != nil {
			net = s.subnets.of(ctx, *netuid)
			version = net.version
		}
	}
	v.mu.Lock()
	d, ok := v.drawn[key]
	v.mu.Unlock()
	if ok && d.index == p.next && d.version == version && now.Sub(d.at) < fresh {
		return d, nil
	}
	b := begin(p, net, netuid, now)
	v.mu.Lock()
	heard, waiting, err := v.hear(ctx, s.log, q.Workspace, q.Project, b.speakers(), t)
	v.mu.Unlock()
	if err != nil {
		return drawn{}, fmt.Errorf("read what validators of %s/%s say: %w", q.Workspace, q.Project, err)
	}
	doc := b.finish(heard, waiting)
	doc.Workspace, doc.Project = q.Workspace, q.Project
	body, err := json.Marshal(doc)
	if err != nil {
		return drawn{}, fmt.Errorf("write the network of %s/%s: %w", q.Workspace, q.Project, err)
	}
	d = drawn{body, p.next, version, now}
	if doc.Judging == nil {
		v.keep(key, d)
	}
	return d, nil
}

// advance reads on in a project's records.
func (s *Service) advance(ctx context.Context, v *view, q httpapi.NetworkQuery, now time.Time, t *turn) (*picture, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.read(ctx, s.log, q.Workspace, q.Project, t); err != nil {
		return nil, fmt.Errorf("read the records of %s/%s: %w", q.Workspace, q.Project, err)
	}
	if err := v.legacy.look(ctx, s.runs, v, q.Workspace, q.Project, now, newTurn()); err != nil {
		return nil, fmt.Errorf("look for runs of %s/%s without records: %w", q.Workspace, q.Project, err)
	}
	return v.picture(), nil
}

func (v *view) keep(netuid int, d drawn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.drawn) >= maxViews {
		clear(v.drawn)
	}
	v.drawn[netuid] = d
}

// view is what was read of a project; the one that nobody asked for longest goes.
func (s *Service) view(project string) *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.views[project]
	if k == nil {
		if len(s.views) >= maxViews {
			s.forget()
		}
		k = &kept{view: newView()}
		s.views[project] = k
	}
	k.used = s.now()
	return k.view
}

func (s *Service) forget() {
	oldest := ""
	for project, k := range s.views {
		if oldest == "" || k.used.Before(s.views[oldest].used) {
			oldest = project
		}
	}
	delete(s.views, oldest)
}
