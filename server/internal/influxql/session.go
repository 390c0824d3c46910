package influxql

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/influxdata/influxdb/query"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// What things take in memory, in bytes.
const (
	tagBytes    = 64  // with its place
	seriesBytes = 640 // with its group and its labels
	pointBytes  = 208 // as a function holds it, in a list that grows
	rowBytes    = 160
)

// Parts of a statement's memory: a third for the series that it knows, a third for points
// that functions hold, the rest for pages of rows.
const parts = 3

const (
	mostBuckets = 1_000_000 // intervals of GROUP BY time()
	mostPage    = 4096      // rows
	leastPage   = 4
)

// session is a statement at work. The engine plans in several goroutines.
type session struct {
	ctx     context.Context //nolint:containedctx // the engine's interfaces pass none on
	service Service
	memory  int64
	whole   int64 // that it may have

	series, scans atomic.Int64
	read, held    atomic.Int64
	tags          atomic.Int64 // bytes
	planned       atomic.Int64 // points to hold
	short         atomic.Bool  // more memory may help
	texts         atomic.Int64 // bytes, of all pages
	skipped       atomic.Int64 // values that are not finite, left out of functions
	heavy         bool         // a function holds the points of an interval
	mostRead      int64

	mu     sync.Mutex
	failed error // the first: some of the engine's iterators end at an error as at the end
}

// fail keeps an error for the end of the statement.
func (s *session) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
	return err
}

// failure is what became of the statement, of which the engine says err.
func (s *session) failure(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	return err
}

func (s *session) tooMuch(what string, most int64, hint string) error {
	return s.fail(model.Errorf(model.CodeTooLarge, "the statement reads more than %d %s", most, what).WithHint("%s", hint))
}

func (s *session) mostSeries() int64 { return s.memory / parts / seriesBytes }
func (s *session) mostHeld() int64   { return s.memory / parts / pointBytes }

// takeSeries counts series that the statement knows.
func (s *session) takeSeries(n int) error {
	if s.series.Add(int64(n)) > s.mostSeries() {
		s.short.Store(true)
		return s.tooMuch("series", s.mostSeries(), "name one measurement, or give the server more memory")
	}
	return nil
}

// takeTags counts bytes of what attempts say of themselves.
func (s *session) takeTags(n int) error {
	if s.tags.Add(int64(n)) > s.memory/parts {
		return s.tooMuch("bytes of tags", s.memory/parts, "name the tags instead of *, or narrow WHERE")
	}
	return nil
}

// takeScan counts series that are read at one time.
func (s *session) takeScan(n int) error {
	if s.scans.Add(int64(n)) > s.mostSeries() {
		s.short.Store(true)
		return s.tooMuch("series side by side", s.mostSeries(), "select fewer fields, or narrow WHERE")
	}
	return nil
}

// hold counts points that stay in memory to the statement's end.
func (s *session) hold(n int64) error {
	if s.held.Add(n) > s.mostHeld() {
		s.short.Store(true)
		return s.fail(model.Errorf(model.CodeTooLarge, "the statement holds more than %d points in memory", s.mostHeld()).
			WithHint("narrow the time range, or group by fewer tags"))
	}
	return nil
}

// fits says whether so many points more may be held, were all memory the statement's.
func (s *session) fits(n int64) bool { return s.planned.Add(n) <= s.whole/parts/pointBytes }

// pageRows is how many rows a page has, so that those of all series fit.
func (s *session) pageRows() int {
	return int(max(leastPage, min(mostPage, s.memory/parts/rowBytes/max(1, s.scans.Load()))))
}

// page counts the texts of a page that takes the place of another.
func (s *session) page(old, now *store.Rows) error {
	if s.texts.Add(textBytes(now)-textBytes(old)) > s.memory/parts {
		return s.tooMuch("bytes of texts side by side", s.memory/parts, "select fewer text fields, or narrow WHERE")
	}
	return nil
}

func textBytes(r *store.Rows) (n int64) {
	if r != nil {
		for _, text := range r.Values.Texts {
			n += int64(len(text))
		}
	}
	return n
}

// rows reads a page.
func (s *session) rows(r store.ScanRequest) (*store.Rows, error) {
	if err := s.ctx.Err(); err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.service.Rows(s.ctx, r)
	if model.CodeOf(err) == model.CodeNotFound || model.CodeOf(err) == model.CodeRunDeleted {
		return &store.Rows{}, nil // deleted meanwhile
	}
	if err != nil {
		return nil, s.fail(err)
	}
	if s.read.Add(int64(len(rows.TimeNs))) > s.mostRead {
		return nil, s.tooMuch("points", s.mostRead, "narrow the time range, or the tags in WHERE")
	}
	return rows, nil
}

// meter counts the points of an interval where a function holds all of them.
type meter struct {
	session *session
	tags    string
	until   int64 // of the interval, exclusive
	from    int64
	count   int64
}

func (m *meter) take(opt *query.IteratorOptions, tags string, now, weight int64) error {
	if m == nil || !m.session.heavy {
		return nil
	}
	if tags != m.tags || now < m.from || now >= m.until {
		m.tags, m.count = tags, 0
		m.from, m.until = opt.Window(now)
	}
	if m.count += weight; m.count > m.session.mostHeld() {
		return m.session.fail(model.Errorf(model.CodeTooLarge, "a function of the statement holds more than %d points of one interval in memory", m.session.mostHeld()).
			WithHint("narrow the time range, use a shorter GROUP BY time(), or a function that holds none, such as mean"))
	}
	return nil
}
