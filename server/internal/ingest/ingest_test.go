package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// rights allows what is not denied.
type rights struct{ denied atomic.Bool }

func (r *rights) Allow(_ context.Context, scope catalog.Scope, workspace, _ string) error {
	if r.denied.Load() || workspace == "secret" {
		return model.Errorf(model.CodePermission, "no %s here", scope)
	}
	return nil
}

// news collects what was published.
type news struct {
	mu      sync.Mutex
	changes []model.RunChange
}

func (n *news) Publish(c model.RunChange) {
	n.mu.Lock()
	n.changes = append(n.changes, c)
	n.mu.Unlock()
}

// flaky is a catalog that takes no updates while it is down.
type flaky struct {
	*sqlite.DB
	down     atomic.Bool
	opened   func() // runs between the catalog's open and what follows, once
	compared func() // runs after every comparison with the store
}

func (f *flaky) Open(ctx context.Context, r model.OpenRequest, now time.Time) (*catalog.Opened, error) {
	o, err := f.DB.Open(ctx, r, now)
	if f.opened != nil {
		f.opened()
		f.opened = nil
	}
	return o, err
}

func (f *flaky) Apply(ctx context.Context, run model.RunID, w model.WriterID, lsn uint64, u []model.Update, now time.Time) error {
	if f.down.Load() {
		return model.Errorf(model.CodeDiskFull, "the disk is full")
	}
	return f.DB.Apply(ctx, run, w, lsn, u, now)
}

// clock is moved by hand.
type clock struct{ ns atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// node is a service on a real engine and a real catalog.
type node struct {
	t       *testing.T
	dir     string
	engine  *local.Engine
	catalog *flaky
	blobs   *dir.Store
	rights  *rights
	news    *news
	clock   *clock
	*ingest.Service
}

func start(t *testing.T) *node {
	n := &node{t: t, dir: t.TempDir(), rights: &rights{}, news: &news{}, clock: &clock{}}
	n.clock.ns.Store(time.Unix(1_800_000_000, 0).UnixNano())
	n.boot()
	t.Cleanup(n.halt)
	return n
}

func (n *node) boot() {
	n.t.Helper()
	engine, err := local.Open(context.Background(), local.Config{Dir: filepath.Join(n.dir, "store")})
	if err != nil {
		n.t.Fatal(err)
	}
	db, err := sqlite.Open(context.Background(), filepath.Join(n.dir, "catalog.db"))
	if err != nil {
		n.t.Fatal(err)
	}
	blobs, err := dir.Open(filepath.Join(n.dir, "blobs"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.engine, n.catalog, n.blobs = engine, &flaky{DB: db}, blobs
	n.Service = ingest.New(ingest.Config{}, ingest.Deps{
		Points: engine, Updates: engine, Starts: engine, Roster: engine, Catalog: n.catalog, Views: db, Names: db, Blobs: blobs, Auth: n.rights, Live: n.news,
		Now: n.clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err := n.Recover(context.Background()); err != nil {
		n.t.Fatalf("Recover: %v", err)
	}
}

func (n *node) halt() {
	if err := n.engine.Close(); err != nil {
		n.t.Errorf("close the engine: %v", err)
	}
	if err := n.catalog.Close(); err != nil {
		n.t.Errorf("close the catalog: %v", err)
	}
	if err := n.blobs.Close(); err != nil {
		n.t.Errorf("close the blobs: %v", err)
	}
}

func (n *node) restart() {
	n.halt()
	n.boot()
}

func request(writer byte) model.OpenRequest {
	return model.OpenRequest{Writer: model.WriterID{writer}, Workspace: "team", Project: "project", RunName: "run", OrchestrationID: "job", Host: "h", SDK: "test"}
}

func (n *node) join(r model.OpenRequest) *ingest.Session {
	n.t.Helper()
	s, err := n.Join(n.t.Context(), r)
	if err != nil {
		n.t.Fatalf("Join: %v", err)
	}
	n.t.Cleanup(s.Close)
	return s
}

// points is a batch of one record a row, from sequence first.
func points(first uint64, steps ...int64) *model.Batch {
	b := &model.Batch{First: first, Last: first + uint64(len(steps)) - 1}
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: steps}}, Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat}}}
	for i, step := range steps {
		g.TimeNs = append(g.TimeNs, 1_000+step)
		g.Seq = append(g.Seq, first+uint64(i))
		g.Columns[0].Floats = append(g.Columns[0].Floats, float64(step)/2)
	}
	b.Groups = []model.RowGroup{g}
	return b
}

// updates is a batch of one record.
func updates(seq uint64, list ...model.Update) *model.Batch {
	for i := range list {
		list[i].Seq = seq
	}
	return &model.Batch{First: seq, Last: seq, Updates: list}
}

func dropped(n uint64) model.Update { return model.Update{Op: model.OpDropped, Count: n} }

func (n *node) append(s *ingest.Session, b *model.Batch) model.Ack {
	n.t.Helper()
	ack, err := s.Append(n.t.Context(), b)
	if err != nil {
		n.t.Fatalf("Append %d to %d: %v", b.First, b.Last, err)
	}
	return ack
}

// steps reads a series of the run back.
func (n *node) steps(run model.RunID, metric string) []int64 {
	n.t.Helper()
	page, _, err := n.engine.ListSeries(n.t.Context(), run, store.SeriesFilter{Metric: metric, Limit: 10})
	if model.CodeOf(err) == model.CodeNotFound || len(page) == 0 {
		return nil
	}
	rows, err := n.engine.Scan(n.t.Context(), store.ScanRequest{Run: run, Series: page[0].ID, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Limit: 10_000})
	if err != nil {
		n.t.Fatalf("Scan: %v", err)
	}
	return rows.Axes[0].Values
}

func (n *node) detail(run model.RunID) *catalog.Detail {
	n.t.Helper()
	d, err := n.catalog.GetRun(n.t.Context(), run)
	if err != nil {
		n.t.Fatal(err)
	}
	return d
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestPointsAndUpdatesAreDurableWhenAcked(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	run := s.Opened.Run
	if ack := n.append(s, points(1, 0, 1, 2)); ack.Mark != 3 || ack.Stored != 3 || len(ack.Refused) > 0 {
		t.Errorf("ack %+v", ack)
	}
	ack := n.append(s, updates(4, model.Update{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(0.1)}, model.Update{Op: model.OpClose, Text: "finished"}))
	if ack.Mark != 4 {
		t.Errorf("ack %+v", ack)
	}
	if repeat := n.append(s, points(1, 0, 1, 2)); repeat.Mark != 4 || repeat.Stored != 0 {
		t.Errorf("a repeat: %+v", repeat)
	}
	if ack, err := s.Append(t.Context(), points(9, 9)); model.CodeOf(err) != model.CodeGap || ack.Mark != 4 {
		t.Errorf("a gap: %+v, %v", ack, err)
	}
	n.restart()
	equal(t, "steps", []int64{0, 1, 2}, n.steps(run, "loss"))
	d := n.detail(run)
	if d.Status != model.StatusFinished || len(d.Attributes) != 1 {
		t.Errorf("detail: %+v", d)
	}
	r := request(2)
	r.WithStarts = true
	opened, err := n.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "starts", []model.Start{{Metric: "loss", Scale: model.ScaleStep, Next: 3}}, opened.Starts)
	if !opened.StartsComplete || opened.Attempt != 2 || opened.Mark != 0 {
		t.Errorf("opened: %+v", opened)
	}
	if again := n.join(request(1)); again.Opened.Mark != 4 {
		t.Errorf("the mark after a restart: %+v", again.Opened)
	}
	if stats := n.Stats(); stats.Streams != 1 {
		t.Errorf("stats: %+v", stats)
	}
	if len(n.news.changes) == 0 || n.news.changes[0] != (model.RunChange{Run: run, Workspace: "team", Project: "project"}) {
		t.Errorf("news: %+v", n.news.changes)
	}
}

func TestRights(t *testing.T) {
	n := start(t)
	secret := request(1)
	secret.Workspace = "secret"
	if _, err := n.Open(t.Context(), secret); model.CodeOf(err) != model.CodePermission {
		t.Errorf("Open: %v", err)
	}
	s := n.join(request(1))
	n.append(s, points(1, 0))
	n.rights.denied.Store(true)
	n.clock.advance(time.Second)
	if _, err := s.Append(t.Context(), points(2, 1)); model.CodeOf(err) != model.CodePermission {
		t.Errorf("Append after a revocation: %v", err)
	}
	for name, err := range map[string]error{
		"UpdateRun":  n.UpdateRun(t.Context(), s.Opened.Run, nil),
		"DeleteRun":  n.DeleteRun(t.Context(), s.Opened.Run, true),
		"RestoreRun": n.RestoreRun(t.Context(), s.Opened.Run),
	} {
		if model.CodeOf(err) != model.CodePermission {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, "steps", []int64{0}, n.steps(s.Opened.Run, "loss"))
}

func TestBadOpensAreRefused(t *testing.T) {
	n := start(t)
	negative := int64(-1)
	for name, change := range map[string]func(*model.OpenRequest){
		"no writer":        func(r *model.OpenRequest) { r.Writer = model.WriterID{} },
		"bad project":      func(r *model.OpenRequest) { r.Project = "../x" },
		"bad name":         func(r *model.OpenRequest) { r.RunName = "a\nb" },
		"control in host":  func(r *model.OpenRequest) { r.Host = "\x1b[31m" },
		"long experiment":  func(r *model.OpenRequest) { r.Experiment = strings.Repeat("x", 2000) },
		"negative restart": func(r *model.OpenRequest) { r.RestartCount = &negative },
		"negative resume":  func(r *model.OpenRequest) { r.ResumeFromStep = &negative },
		"bad initial":      func(r *model.OpenRequest) { r.Initial = []model.Update{{Op: model.OpSetAttribute}} },
		"closing initial":  func(r *model.OpenRequest) { r.Initial = []model.Update{{Op: model.OpClose, Text: "finished"}} },
	} {
		r := request(1)
		change(&r)
		if _, err := n.Open(t.Context(), r); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABadRecordIsRefusedAndTheRestIsTaken(t *testing.T) {
	labels := func(count int) map[string]string {
		m := map[string]string{}
		for i := range count {
			m[fmt.Sprint("l", i)] = "v"
		}
		return m
	}
	series := func(metric, scale string, labels map[string]string) func(*model.RowGroup) {
		return func(g *model.RowGroup) { g.Columns[0].Series = model.NewSeriesKey(metric, scale, labels) }
	}
	step := func(v int64) func(*model.RowGroup) {
		return func(g *model.RowGroup) { g.Axes[0].Values[0] = v }
	}
	document := func(c model.Column) func(*model.RowGroup) {
		return func(g *model.RowGroup) { c.Series = model.NewSeriesKey("document", "", nil); g.Columns[0] = c }
	}
	for name, c := range map[string]struct {
		change func(*model.RowGroup)
		code   model.Code // "" is taken
	}{
		"no metric":              {series("", "", nil), model.CodeBadRecord},
		"a control character":    {series("a\tb", "", nil), model.CodeBadRecord},
		"not UTF-8":              {series("a\xff", "", nil), model.CodeBadRecord},
		"other characters":       {series("a b=(ü)/:&?%#{}", "my scale", nil), ""},
		"a long metric":          {series(strings.Repeat("m", 1025), "", nil), model.CodeLimit},
		"a bad scale":            {series("m", "a\x00", nil), model.CodeBadRecord},
		"64 labels":              {series("m", "", labels(64)), ""},
		"65 labels":              {series("m", "", labels(65)), model.CodeLimit},
		"a long label name":      {series("m", "", map[string]string{strings.Repeat("n", 129): "v"}), model.CodeLimit},
		"a long label":           {series("m", "", map[string]string{"n": strings.Repeat("v", 1025)}), model.CodeLimit},
		"the longest label":      {series("m", "", map[string]string{strings.Repeat("n", 128): strings.Repeat("v", 1024)}), ""},
		"no label name":          {series("m", "", map[string]string{"": "v"}), model.CodeBadRecord},
		"a control in a label":   {series("m", "", map[string]string{"n": "\x01"}), model.CodeBadRecord},
		"unsorted labels":        {func(g *model.RowGroup) { g.Columns[0].Series.Labels = []model.Label{{Name: "b"}, {Name: "a"}} }, model.CodeBadRecord},
		"a negative step":        {step(-1), model.CodeBadRecord},
		"a huge step":            {step(1<<62 + 1), model.CodeBadRecord},
		"the largest step":       {step(1 << 62), ""},
		"a time out of range":    {func(g *model.RowGroup) { g.TimeNs[0] = math.MinInt64 }, model.CodeBadRecord},
		"a text that is no text": {document(model.Column{Kind: model.KindText, Texts: []string{"\xff"}}), model.CodeBadRecord},
		"a large document":       {document(model.Column{Kind: model.KindScatter, Docs: [][]byte{make([]byte, 1<<20+1)}}), model.CodeLimit},
		"no histogram":           {document(model.Column{Kind: model.KindHistogram, Docs: [][]byte{{1}}}), model.CodeBadRecord},
		"a histogram":            {document(model.Column{Kind: model.KindHistogram, Docs: [][]byte{[]byte(`{"bin_edges":[0,1],"counts":[2]}`)}}), ""},
		"a scatter":              {document(model.Column{Kind: model.KindScatter, Docs: [][]byte{[]byte(`{"x":[0],"y":["NaN"]}`)}}), ""},
		"infinity":               {func(g *model.RowGroup) { g.Columns[0].Floats[0] = math.Inf(1) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			s := n.join(request(1))
			made := func() *model.Batch {
				b := points(1, 0)
				bad := points(2, 5)
				c.change(&bad.Groups[0])
				b.Groups = append(b.Groups, bad.Groups[0], points(3, 1).Groups[0])
				b.Last = 3
				return b
			}
			ack := n.append(s, made())
			again := n.append(s, made())
			if ack.Mark != 3 || again.Mark != 3 || again.Stored != 0 {
				t.Errorf("acks %+v, %+v", ack, again)
			}
			if c.code == "" {
				if ack.Stored != 3 || len(ack.Refused) > 0 {
					t.Errorf("ack %+v, want all three", ack)
				}
				return
			}
			if ack.Stored != 2 || len(ack.Refused) != 1 || ack.Refused[0].Seq != 2 || ack.Refused[0].Code != c.code || ack.Refused[0].Message == "" {
				t.Errorf("ack %+v, want %s for 2", ack, c.code)
			}
			equal(t, "the refusals of a repeat", ack.Refused, again.Refused)
			equal(t, "steps", []int64{0, 1}, n.steps(s.Opened.Run, "loss"))
			if refused := n.detail(s.Opened.Run).Refused; refused != 1 {
				t.Errorf("%d refused points are recorded, want 1", refused)
			}
			if stats := n.Stats(); stats.Refused != 1 || stats.Points != 2 {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

func TestBadUpdatesAreRefused(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	episode := int64(-1)
	seq := uint64(0)
	for _, u := range []model.Update{
		{Op: "strange"},
		{Op: model.OpRefused, Count: 5},
		{Op: model.OpSetAttribute, Value: model.IntValue(1)},
		{Op: model.OpSetAttribute, Path: "a\nb"},
		{Op: model.OpSetAttribute, Path: strings.Repeat("p", 513)},
		{Op: model.OpSetAttribute, Path: "p", Value: model.StringValue(strings.Repeat("x", 64<<10+1))},
		{Op: model.OpSetAttribute, Path: "p", Value: model.StringValue("\xff")},
		{Op: model.OpSetAttribute, Path: "host/name", Value: model.StringValue("x"), Initial: true},
		{Op: model.OpSetAttribute, Path: "config/lr", Initial: true},
		{Op: model.OpSetEnvAttribute, Path: "p"},
		{Op: model.OpSetEnvAttribute, Env: "e", Path: "p", Episode: &episode},
		{Op: model.OpAddTags, Tags: []string{""}},
		{Op: model.OpSetTags, Tags: []string{strings.Repeat("t", 257)}},
		{Op: model.OpSetDisplayName, Text: "a\x00"},
		{Op: model.OpSetDescription, Text: "\xff"},
		{Op: model.OpClose, Text: "maybe"},
		{Op: model.OpLog, Path: "", Text: "x"},
		{Op: model.OpLog, Path: "e", Value: model.IntValue(1)},
		{Op: model.OpSetTree, Path: "a client has none", Text: "{}"},
		{Op: model.OpSetFile, Path: "a client has none", File: &model.RunFile{SHA256: strings.Repeat("a", 64)}},
	} {
		seq++
		// The rest of the record is not taken either.
		ack := n.append(s, updates(seq, u, model.Update{Op: model.OpAddTags, Tags: []string{"taken"}}))
		if len(ack.Refused) != 1 || ack.Refused[0].Seq != seq || !ack.Refused[0].Code.Final() || ack.Mark != seq {
			t.Errorf("%+v: ack %+v", u, ack)
		}
	}
	if d := n.detail(s.Opened.Run); len(d.Tags)+len(d.Attributes) > 0 || d.Refused != 0 || d.Status != model.StatusRunning {
		t.Errorf("something was taken: %+v", d)
	}
}

func TestMalformedBatchesStoreNothing(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	for name, change := range map[string]func(*model.Batch){
		"first after last":    func(b *model.Batch) { b.First = 9 },
		"only a last":         func(b *model.Batch) { b.First = 0 },
		"too few sequences":   func(b *model.Batch) { b.Groups[0].Seq = b.Groups[0].Seq[:1] },
		"a sequence outside":  func(b *model.Batch) { b.Groups[0].Seq[0] = 7 },
		"too few values":      func(b *model.Batch) { b.Groups[0].Columns[0].Floats = []float64{1} },
		"values of two kinds": func(b *model.Batch) { b.Groups[0].Columns[0].Ints = []int64{1, 2} },
		"an unknown kind":     func(b *model.Batch) { b.Groups[0].Columns[0].Kind = 9 },
		"too few steps":       func(b *model.Batch) { b.Groups[0].Axes[0].Values = []int64{1} },
		"an unknown axis":     func(b *model.Batch) { b.Groups[0].Axes[0].Axis = "w" },
		"an axis twice":       func(b *model.Batch) { b.Groups[0].Axes = append(b.Groups[0].Axes, b.Groups[0].Axes[0]) },
		"a relative rl_step": func(b *model.Batch) {
			b.Groups[0].Axes[0] = model.AxisColumn{Axis: model.AxisRLStep, Values: []int64{1, 2}, Relative: true}
		},
		"an unknown uniqueness":    func(b *model.Batch) { b.Groups[0].Unique = 7 },
		"a skip outside":           func(b *model.Batch) { b.Skipped = []model.Skipped{{First: 2, Last: 3}} },
		"a skip backwards":         func(b *model.Batch) { b.Skipped = []model.Skipped{{First: 2, Last: 1}} },
		"a skip over a row":        func(b *model.Batch) { b.Skipped = []model.Skipped{{First: 2, Last: 2}} },
		"a strange reason":         func(b *model.Batch) { b.Groups = nil; b.Skipped = []model.Skipped{{First: 1, Last: 2, Reason: "\x00"}} },
		"an update of another one": func(b *model.Batch) { b.Updates = []model.Update{{Op: model.OpGone, Seq: 8}} },
	} {
		b := points(1, 0, 1)
		change(b)
		if _, err := s.Append(t.Context(), b); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ack := n.append(s, points(1, 0, 1)); ack.Stored != 2 {
		t.Errorf("the mark moved: %+v", ack)
	}
}

func TestAForeignBatchLosesOnlyTheFaultyPart(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	b := points(1, 0, -1, 2)
	b.First, b.Last, b.Groups[0].Seq, b.Groups[0].Unique = 0, 0, nil, model.UniqueTime
	bad := b.Groups[0].Columns[0]
	bad.Series = model.NewSeriesKey("a\x00", "", nil)
	b.Groups[0].Columns = append(b.Groups[0].Columns, bad)
	ack := n.append(s, b)
	if ack.Stored != 2 || len(ack.Refused) != 2 || ack.Mark != 0 {
		t.Errorf("ack %+v", ack)
	}
	equal(t, "steps", []int64{0, 2}, n.steps(s.Opened.Run, "loss"))
	if refused := n.detail(s.Opened.Run).Refused; refused != 4 { // a column of three, one row of the other
		t.Errorf("%d refused points are recorded, want 4", refused)
	}
}

func TestANewerStreamEndsTheOlder(t *testing.T) {
	n := start(t)
	older := n.join(request(1))
	n.append(older, points(1, 0))
	newer := n.join(request(1))
	<-older.Superseded()
	if _, err := older.Append(t.Context(), points(2, 1)); model.CodeOf(err) != model.CodeSuperseded {
		t.Errorf("the older: %v", err)
	}
	older.Close()
	older.Close()
	if newer.Opened.Mark != 1 {
		t.Errorf("the newer: %+v", newer.Opened)
	}
	n.append(newer, points(2, 1))
	if _, err := n.Open(t.Context(), request(1)); err != nil {
		t.Error(err)
	}
	n.append(newer, points(3, 2)) // an open without a stream ends nobody
	if got := n.Stats().Streams; got != 1 {
		t.Errorf("%d streams, want 1", got)
	}
	newer.Close()
	if got := n.Stats().Streams; got != 0 {
		t.Errorf("%d streams, want 0", got)
	}
}

func TestAnAckWaitsForTheCatalog(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	n.catalog.down.Store(true)
	if _, err := s.Append(t.Context(), updates(1, dropped(5))); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("while the catalog is down: %v", err)
	}
	// The store has it, so the mark covers it: nothing may be acked or opened.
	if _, err := s.Append(t.Context(), updates(1, dropped(5))); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("a repeat: %v", err)
	}
	if _, err := s.Append(t.Context(), points(2, 0)); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("the next batch: %v", err)
	}
	if _, err := n.Open(t.Context(), request(1)); model.CodeOf(err) != model.CodeDiskFull {
		t.Errorf("an open: %v", err)
	}
	n.catalog.down.Store(false)
	if ack := n.append(s, updates(1, dropped(5))); ack.Mark != 1 {
		t.Errorf("when it is back: %+v", ack)
	}
	n.append(s, points(2, 0))
	if got := n.detail(s.Opened.Run).Dropped; got != 5 {
		t.Errorf("applied %d, want 5 once", got)
	}
}

func TestUpdatesSurviveACrashBeforeTheCatalog(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	n.append(s, updates(1, dropped(1)))
	n.catalog.down.Store(true)
	if _, err := s.Append(t.Context(), updates(2, dropped(10))); err == nil {
		t.Error("acked without the catalog")
	}
	n.restart()
	if got := n.detail(s.Opened.Run).Dropped; got != 11 {
		t.Errorf("applied %d after a restart, want 11", got)
	}
	n.restart()
	if got := n.detail(s.Opened.Run).Dropped; got != 11 {
		t.Errorf("applied %d after another, want 11", got)
	}
	s = n.join(request(1))
	n.append(s, updates(3, dropped(100)))
	if got := n.detail(s.Opened.Run).Dropped; got != 111 {
		t.Errorf("applied %d, want 111", got)
	}
}

func TestManyWritersOfOneRun(t *testing.T) {
	n := start(t)
	const writers, batches = 8, 20
	var group sync.WaitGroup
	for w := range byte(writers) {
		s := n.join(request(w + 1))
		group.Go(func() {
			for i := range uint64(batches) {
				b := points(2*i+1, int64(i))
				b.Last++
				u := dropped(1)
				u.Seq = b.Last
				b.Updates = []model.Update{u}
				if ack, err := s.Append(t.Context(), b); err != nil || ack.Mark != b.Last {
					t.Errorf("writer %d: %+v, %v", w, ack, err)
				}
			}
		})
	}
	group.Wait()
	n.restart()
	s := n.join(request(1))
	if got := n.detail(s.Opened.Run).Dropped; got != writers*batches {
		t.Errorf("applied %d updates, want %d", got, writers*batches)
	}
	if got := len(n.steps(s.Opened.Run, "loss")); got != writers*batches {
		t.Errorf("%d points, want %d", got, writers*batches)
	}
}

func TestDeletion(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	run := s.Opened.Run
	n.append(s, points(1, 0))
	if err := n.DeleteRun(t.Context(), run, false); err != nil {
		t.Fatal(err)
	}
	late := points(2, 1, 2)
	late.Last++
	late.Updates = []model.Update{{Op: model.OpAddTags, Tags: []string{"late"}, Seq: 4}}
	ack := n.append(s, late)
	if ack.Mark != 4 || ack.Stored != 0 || len(ack.Refused) != 3 {
		t.Errorf("late points: %+v", ack)
	}
	for i, r := range ack.Refused {
		if r.Seq != uint64(i+2) || r.Code != model.CodeRunDeleted {
			t.Errorf("refusal %+v", r)
		}
	}
	if _, err := n.Open(t.Context(), request(2)); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("an open: %v", err)
	}
	if err := n.UpdateRun(t.Context(), run, []model.Update{{Op: model.OpSetDescription, Text: "x"}}); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("an edit: %v", err)
	}
	if err := n.RestoreRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	n.append(s, points(5, 3))
	equal(t, "steps", []int64{0, 3}, n.steps(run, "loss"))
	if d := n.detail(run); d.Refused != 2 || len(d.Tags) > 0 {
		t.Errorf("the restored run: refused %d, tags %v", d.Refused, d.Tags)
	}
	if err := n.DeleteRun(t.Context(), run, true); err != nil {
		t.Fatal(err)
	}
	if ack := n.append(s, points(6, 4)); ack.Mark != 6 || len(ack.Refused) != 1 || ack.Refused[0].Code != model.CodeRunDeleted {
		t.Errorf("points of a purged run: %+v", ack)
	}
	if _, err := n.catalog.GetRun(t.Context(), run); err == nil {
		t.Error("a purged run is there")
	}
	if got := n.steps(run, "loss"); len(got) > 0 {
		t.Errorf("points of a purged run: %v", got)
	}
	n.restart()
	if _, err := n.Open(t.Context(), request(1)); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("the writer of a purged run: %v", err)
	}
}

func TestADeletionWhileARunIsOpened(t *testing.T) {
	n := start(t)
	run := n.join(request(1)).Opened.Run
	n.catalog.opened = func() {
		if err := n.DeleteRun(context.Background(), run, false); err != nil {
			t.Error(err)
		}
	}
	s := n.join(request(2)) // the catalog has it: a known writer
	if ack := n.append(s, points(1, 0)); ack.Mark != 1 || len(ack.Refused) != 1 {
		t.Errorf("points: %+v", ack)
	}
}

// TestLatePointsOnANewStream: after a restart a known writer of a run in the
// trash has its points counted, and goes on when the run is restored.
func TestLatePointsOnANewStream(t *testing.T) {
	n := start(t)
	run := n.join(request(1)).Opened.Run
	n.append(n.join(request(1)), points(1, 0))
	if err := n.DeleteRun(t.Context(), run, false); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if _, err := n.Open(t.Context(), request(1)); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("an open without a stream: %v", err)
	}
	if _, err := n.Join(t.Context(), request(2)); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("a new writer: %v", err)
	}
	s := n.join(request(1))
	if s.Opened.Run != run || s.Opened.Mark != 1 {
		t.Errorf("opened: %+v", s.Opened)
	}
	ack := n.append(s, points(2, 1, 2))
	if ack.Mark != 3 || ack.Stored != 0 || len(ack.Refused) != 2 || ack.Refused[0].Code != model.CodeRunDeleted {
		t.Errorf("late points: %+v", ack)
	}
	if got := n.Stats().Refused; got != 2 {
		t.Errorf("%d refused points are counted", got)
	}
	n.append(s, points(2, 1, 2)) // the ack was lost
	if err := n.RestoreRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	n.append(s, points(4, 3))
	n.append(n.join(request(1)), points(5, 4))
	equal(t, "steps", []int64{0, 3, 4}, n.steps(run, "loss"))
	if d := n.detail(run); d.Refused != 2 || d.DeletedNs != 0 {
		t.Errorf("the restored run: refused %d, deleted %d", d.Refused, d.DeletedNs)
	}
}

func TestUpdateRun(t *testing.T) {
	n := start(t)
	opened, err := n.Open(t.Context(), request(1))
	if err != nil {
		t.Fatal(err)
	}
	edit := []model.Update{{Op: model.OpSetTags, Tags: []string{"a"}}, {Op: model.OpSetDescription, Text: "d"}, {Op: model.OpSetDisplayName, Text: "n"}}
	if err := n.UpdateRun(t.Context(), opened.Run, edit); err != nil {
		t.Fatal(err)
	}
	if d := n.detail(opened.Run); d.DisplayName != "n" || d.Description != "d" || len(d.Tags) != 1 {
		t.Errorf("detail: %+v", d.Run)
	}
	for _, u := range []model.Update{{Op: model.OpClose, Text: "failed"}, {Op: model.OpDropped}, {Op: model.OpSetTags, Tags: []string{"\x00"}}} {
		if err := n.UpdateRun(t.Context(), opened.Run, []model.Update{u}); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", u.Op, err)
		}
	}
	if err := n.UpdateRun(t.Context(), model.RunID{9}, edit); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("an unknown run: %v", err)
	}
}

func TestGone(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	n.append(s, points(1, 0))
	if err := s.Gone(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	if d := n.detail(s.Opened.Run); d.Status != model.StatusLost {
		t.Errorf("status %s", d.Status)
	}
	n.append(s, updates(2, model.Update{Op: model.OpClose, Text: "finished"}))
	if d := n.detail(s.Opened.Run); d.Status != model.StatusFinished {
		t.Errorf("status %s after the close", d.Status)
	}
}
