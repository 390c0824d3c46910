package kymogram

import (
	"github.com/kymogram/kymogram/internal/spool"
)

// Counts follow one kind of data from the log call to the server.
type Counts struct {
	Added    uint64 // given to a log call
	Enqueued uint64 // in the spool, or in memory while the spool is full
	Sent     uint64 // stored by the server
	Dropped  uint64 // given up: no space, or too many tries
}

// Metrics are a run's counters at one moment; all but the gauges only grow.
type Metrics struct {
	FloatPoints, RLFloatPoints            Counts
	AttributeUpdates, EnvAttributeUpdates Counts

	Refused            uint64 // points that the server refused for good
	Pending            uint64 // points that no server has decided about (gauge)
	InMemory           uint64 // of them those that wait in memory, because the disk is full (gauge)
	StepsNotRising     uint64 // points whose given step was not above the one before
	SharedEnvironments uint64 // RL environments that another process logs at the same time
	RequestsSent       uint64
	ConnectionAttempts uint64
	SendErrors         uint64
	ErrorsReported     uint64
	ErrorsEvicted      uint64 // beyond what [Run.SenderErrors] holds

	RenderingFramesAdded, RenderingFramesEncoded, RenderingFramesDropped, RenderingsFinished uint64
	RenderingsFailed                                                                         uint64 // whose encoder failed; what was whole of them is kept
}

// Metrics counts what became of everything that this process logged. It reads
// counters and one page of a file: it may be called as often as one likes.
func (r *Run) Metrics() Metrics {
	page, err := r.w.Status().Read()
	if err != nil { // the folder is delivered and gone: what was counted last stands
		page = r.lastPage()
	} else {
		r.keepPage(page)
	}
	over := r.w.Lost()
	added := r.added()
	dropped := over.Dropped
	dropped.Points += r.gate.Dropped()
	m := Metrics{
		FloatPoints:         counts(added.Points, dropped.Points, page.Sent.Points, page.Dropped.Points),
		RLFloatPoints:       counts(added.RL, dropped.RL, page.Sent.RL, page.Dropped.RL),
		AttributeUpdates:    counts(added.Attributes, 0, page.Sent.Attributes, 0),
		EnvAttributeUpdates: counts(added.Envs, 0, page.Sent.Envs, 0),
		Refused:             page.Refused, InMemory: over.Waiting.Total(), StepsNotRising: r.falls.Load(), SharedEnvironments: r.sharedEnvs.Load(),
		RequestsSent: page.Batches, ConnectionAttempts: page.Connections, SendErrors: page.Errors,
	}
	kept := m.FloatPoints.Enqueued + m.RLFloatPoints.Enqueued
	decided := page.Acked + page.Refused + page.Dropped.Total()
	m.Pending = kept - min(kept, decided)
	m.ErrorsReported, m.ErrorsEvicted = r.errors.Counts()
	if v := r.videos.Load(); v != nil {
		n := v.Counts()
		m.RenderingFramesAdded, m.RenderingFramesEncoded, m.RenderingFramesDropped = n.Added, n.Encoded, n.Dropped
		m.RenderingsFinished, m.RenderingsFailed = n.Finished, n.Failed
	}
	return m
}

// counts fits one kind's numbers together: dropped here, then sent and given up
// by the deliverer.
func counts(added, dropped, sent, givenUp uint64) Counts {
	return Counts{Added: added, Enqueued: added - min(added, dropped), Sent: sent, Dropped: dropped + givenUp}
}

// added sums what the log calls were given.
func (r *Run) added() (t spool.Tally) {
	r.all.Each(func(s *Series) {
		if n := s.logged.Load(); s.key.Scale == ScaleEpisode || s.key.Scale == ScaleEnvironment {
			t.RL += n
		} else {
			t.Points += n
		}
	})
	t.Points += r.gate.Dropped()
	t.Attributes, t.Envs = r.attributes.Load(), r.envAttributes.Load()
	return t
}

func (r *Run) keepPage(page spool.Page) {
	r.pageMu.Lock()
	defer r.pageMu.Unlock()
	if page.Mark >= r.page.Mark {
		r.page = page
	}
}

func (r *Run) lastPage() spool.Page {
	r.pageMu.Lock()
	defer r.pageMu.Unlock()
	return r.page
}
