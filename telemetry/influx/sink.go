package influx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/influxdb-client-go/v2/api/write"

	"github.com/kymogram/kymogram/telemetry"
)

// Options say where points go. What is empty is the variable's, then the default.
type Options struct {
	telemetry.Options
	Host string // INFLUXDB_HOST; a host alone means https. Without both the points go to Kymogram
	Port int    // INFLUXDB_PORT, else 8086
	API  string // "v1", "v2"; empty: as the server answers at /ping

	BatchSize     int           // 10,000 for validators, else 1,000
	FlushInterval time.Duration // 60 s
	RetryInterval time.Duration // 10 s; doubles up to MaxRetryDelay
	MaxRetryDelay time.Duration // 125 s
	MaxQueueSize  int           // points that wait; 600,000
	MaxWorkers    int           // 1
}

// New makes a logger whose points go to an InfluxDB: to Kymogram where no host is named.
func New(ctx context.Context, o Options) (*telemetry.Logger, error) {
	o.Host = cmp.Or(o.Host, os.Getenv("INFLUXDB_HOST"))
	if o.Host == "" {
		return telemetry.New(ctx, o.Options)
	}
	sink, err := open(&o)
	if err != nil {
		return nil, err
	}
	return telemetry.WithSink(o.Options, sink), nil
}

func (o *Options) fill() error {
	o.Options = o.Filled()
	o.Token = cmp.Or(o.Token, os.Getenv("INFLUXDB_TOKEN"))
	if text := os.Getenv("INFLUXDB_PORT"); o.Port == 0 && text != "" {
		port, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("INFLUXDB_PORT is a number, not %q", text)
		}
		o.Port = port
	}
	size := 1_000
	if o.Role == telemetry.Validator {
		size = 10_000
	}
	o.Port = cmp.Or(o.Port, 8086)
	o.BatchSize = cmp.Or(o.BatchSize, size)
	o.FlushInterval = cmp.Or(o.FlushInterval, time.Minute)
	o.RetryInterval = cmp.Or(o.RetryInterval, 10*time.Second)
	o.MaxRetryDelay = cmp.Or(o.MaxRetryDelay, 125*time.Second)
	o.MaxQueueSize = cmp.Or(o.MaxQueueSize, 600_000)
	o.MaxWorkers = cmp.Or(o.MaxWorkers, 1)
	return nil
}

// address is the server's: a host alone means https.
func (o *Options) address() string {
	text := strings.TrimRight(o.Host, "/")
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	_, host, _ := strings.Cut(text, "://")
	if strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":") {
		return text
	}
	return text + ":" + strconv.Itoa(o.Port)
}

// Sink sends points to an InfluxDB.
type Sink struct {
	opts    Options
	address string
	tags    map[string]string
	folder  *folder
	log     *slog.Logger
	stop    context.CancelFunc
	workers sync.WaitGroup

	mu        sync.Mutex
	change    chan struct{} // closed when something changed
	way       way
	open      *batch
	ready     []*batch
	waiting   int
	refused   uint64
	nonfinite uint64
	told      map[string]bool
	closed    bool
}

func open(o *Options) (*Sink, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	s := &Sink{opts: *o, address: o.address(), tags: o.Standard(), log: o.Log, change: make(chan struct{}), told: map[string]bool{}}
	for name, text := range o.PlainConfig() {
		s.tags["config_"+name] = text
	}
	switch o.API {
	case "":
	case "v1":
		s.way = version1(s.address, o.Token, o.Org, o.Database)
	case "v2":
		s.way = version2(s.address, o.Token, o.Org, o.Database)
	default:
		return nil, fmt.Errorf("influx: API is v1 or v2, not %q", o.API)
	}
	if f, err := openFolder(os.Getenv, s.address+"\x00"+o.Org+"\x00"+o.Database); err == nil {
		s.folder = &f
		s.ready = f.left()
	} else {
		s.log.Warn("points for the InfluxDB wait in memory only", "error", err)
	}
	for _, b := range s.ready {
		s.waiting += len(b.lines)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	for range o.MaxWorkers {
		s.workers.Go(func() { s.work(ctx) })
	}
	return s, nil
}

var (
	errClosed = errors.New("the logger is closed")
	errEmpty  = errors.New("it has no field that InfluxDB takes")
)

// Write takes a point.
func (s *Sink) Write(c *telemetry.Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := s.line(c)
	switch {
	case err != nil:
		return err
	case s.closed:
		return errClosed
	case s.waiting >= s.opts.MaxQueueSize:
		s.refused++
		return fmt.Errorf("%d points wait for the InfluxDB (MaxQueueSize): it is too slow, or away", s.waiting)
	}
	if s.open == nil {
		s.open = s.create()
	}
	if err := s.open.add(line); err != nil {
		s.tell("disk", "points for the InfluxDB wait in memory only: "+err.Error())
	}
	if s.waiting++; len(s.open.lines) >= s.opts.BatchSize {
		s.seal()
	}
	if s.waiting == 1 {
		s.changed()
	}
	return nil
}

func (s *Sink) create() *batch {
	if s.folder != nil {
		if b, err := s.folder.create(); err == nil {
			return b
		}
	}
	return &batch{began: time.Now()}
}

func (s *Sink) seal() {
	if s.open != nil {
		s.ready, s.open = append(s.ready, s.open), nil
		s.changed()
	}
}

// changed wakes all who wait.
func (s *Sink) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

func (s *Sink) tell(once, text string) {
	if !s.told[once] {
		s.told[once] = true
		s.log.Warn(text)
	}
}

// line is a point in line protocol. The standard tag wins; the caller's goes as caller_NAME.
func (s *Sink) line(c *telemetry.Call) (string, error) {
	tags := maps.Clone(s.tags)
	for name, text := range c.Tags {
		if _, both := s.tags[name]; both {
			s.tell("collide "+name, fmt.Sprintf("the tag %q is also one of the logger's: InfluxDB gets the caller's as %q", name, "caller_"+name))
			name = "caller_" + name
		}
		tags[name] = text
	}
	fields := make(map[string]any, len(c.Fields))
	for name, value := range c.Fields {
		if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			s.nonfinite++
			s.tell("nonfinite", fmt.Sprintf("%s/%s is %v: InfluxDB takes no NaN and no infinity, so such fields are left out and counted", c.Measurement, name, f))
			continue
		}
		fields[name] = value
	}
	if len(fields) == 0 {
		return "", errEmpty
	}
	p := write.NewPoint(c.Measurement, tags, fields, c.Time)
	return strings.TrimSuffix(write.PointToLineProtocol(p, time.Nanosecond), "\n"), nil
}

// work sends batches until the sink is closed.
func (s *Sink) work(ctx context.Context) {
	for ctx.Err() == nil {
		b, wait, change := s.next()
		if b == nil {
			select {
			case <-ctx.Done():
			case <-change:
			case <-time.After(wait):
			}
			continue
		}
		done := s.deliver(ctx, b.lines)
		s.mu.Lock()
		if done {
			s.waiting -= len(b.lines)
			b.done()
		} else {
			s.delay(b)
		}
		s.changed()
		s.mu.Unlock()
	}
}

// next is the batch to send, or how long there is none.
func (s *Sink) next() (b *batch, wait time.Duration, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.open != nil && now.Sub(s.open.began) >= s.opts.FlushInterval {
		s.ready, s.open = append(s.ready, s.open), nil
	}
	wait = s.opts.FlushInterval
	if s.open != nil {
		wait -= now.Sub(s.open.began)
	}
	for i, b := range s.ready {
		if !b.due.After(now) {
			s.ready = slices.Delete(s.ready, i, i+1)
			return b, 0, nil
		}
		wait = min(wait, b.due.Sub(now))
	}
	return nil, wait, s.change
}

// delay puts a batch back.
func (s *Sink) delay(b *batch) {
	wait := s.opts.RetryInterval << min(b.tries, 20)
	b.due = time.Now().Add(min(wait, s.opts.MaxRetryDelay))
	b.tries++
	if s.closed {
		b.leave()
		return
	}
	s.ready = append(s.ready, b)
}

// deliver sends lines; false when they are to be sent again.
func (s *Sink) deliver(ctx context.Context, lines []string) bool {
	way, err := s.reach(ctx)
	if err != nil {
		s.log.Error("points wait: the InfluxDB does not answer", "points", len(lines), "error", err)
		return false
	}
	return s.send(ctx, way, lines)
}

func (s *Sink) reach(ctx context.Context) (way, error) {
	s.mu.Lock()
	known := s.way
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	old, err := isOld(ctx, s.address)
	if err != nil {
		return nil, err
	}
	found := version2(s.address, s.opts.Token, s.opts.Org, s.opts.Database)
	if old {
		found = version1(s.address, s.opts.Token, s.opts.Org, s.opts.Database)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = found
	return found, nil
}

// dropped is how many points a partial write left out, as the answer says.
var dropped = regexp.MustCompile(`dropped=(\d+)`)

func (s *Sink) send(ctx context.Context, way way, lines []string) bool {
	began := time.Now()
	status, err := way(ctx, lines)
	s.log.Debug("points written to the InfluxDB", "points", len(lines), "answer", status, "time", time.Since(began))
	if err == nil {
		return true
	}
	if status != http.StatusBadRequest && status != http.StatusRequestEntityTooLarge && status != http.StatusUnprocessableEntity {
		s.log.Error("points wait for the InfluxDB", "points", len(lines), "answer", status, "error", err)
		return false
	}
	if len(lines) > 1 && !strings.Contains(err.Error(), "partial write") {
		half := len(lines) / 2 // find those that it means
		return s.send(ctx, way, lines[:half]) && s.send(ctx, way, lines[half:])
	}
	lost := 1
	if found := dropped.FindStringSubmatch(err.Error()); found != nil {
		lost, _ = strconv.Atoi(found[1])
	}
	s.mu.Lock()
	s.refused += uint64(lost)
	s.mu.Unlock()
	s.log.Error("the InfluxDB refused points for good", "points", lost, "answer", status, "error", err)
	return true
}

// Counts are what waits, what was refused (by the InfluxDB, or above MaxQueueSize), and NaN and
// infinite fields that were left out.
func (s *Sink) Counts() (waiting int, refused, nonfinite uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting, s.refused, s.nonfinite
}

// Flush sends what waits.
func (s *Sink) Flush(ctx context.Context) error {
	s.mu.Lock()
	s.seal()
	for _, b := range s.ready {
		b.due = time.Time{}
	}
	s.changed()
	for s.waiting > 0 {
		change := s.change
		s.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("send to the InfluxDB: %w", ctx.Err())
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	return nil
}

// Close sends what waits; what ctx leaves no time for stays in its files for the next sink.
func (s *Sink) Close(ctx context.Context) error {
	err := s.Flush(ctx)
	s.mu.Lock()
	s.closed = true
	for _, b := range s.ready {
		b.leave()
	}
	s.ready = nil
	s.mu.Unlock()
	s.stop()
	s.workers.Wait()
	return err
}
