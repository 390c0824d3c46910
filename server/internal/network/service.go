package network

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

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
	v := s.view(q.Workspace + "/" + q.Project)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.read(ctx, s.log, q.Workspace, q.Project); err != nil {
		return nil, fmt.Errorf("read the records of %s/%s: %w", q.Workspace, q.Project, err)
	}
	now := s.now()
	if err := v.legacy.look(ctx, s.runs, v, q.Workspace, q.Project, now); err != nil {
		return nil, fmt.Errorf("look for runs of %s/%s without records: %w", q.Workspace, q.Project, err)
	}
	return s.draw(ctx, v, q, now)
}

// draw makes the document, or takes the one that was just made.
func (s *Service) draw(ctx context.Context, v *view, q httpapi.NetworkQuery, now time.Time) ([]byte, error) {
	netuid := q.Netuid
	if netuid == nil {
		netuid = v.mostUsed()
	}
	key := -1
	var net *subnet
	version := 0
	if netuid != nil {
		key = int(*netuid)
		if s.subnets != nil {
			net = s.subnets.of(ctx, *netuid)
			version = net.version
		}
	}
	if d, ok := v.drawn[key]; ok && d.index == v.next && d.version == version && now.Sub(d.at) < fresh {
		return d.body, nil
	}
	doc := build(v, net, netuid, now)
	doc.Workspace, doc.Project = q.Workspace, q.Project
	body, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("write the network of %s/%s: %w", q.Workspace, q.Project, err)
	}
	if len(v.drawn) >= maxViews {
		clear(v.drawn)
	}
	v.drawn[key] = drawn{body, v.next, version, now}
	return body, nil
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
