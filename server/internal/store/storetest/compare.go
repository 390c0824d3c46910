package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// compare holds an engine's every read against the oracle.
func compare(ctx context.Context, e store.Engine, n *naive, limit int) error {
	n, err := n.kept(ctx, e)
	if err != nil {
		return err
	}
	for w, mark := range n.marks {
		if got, err := e.Mark(ctx, w); err != nil || got != mark {
			return fmt.Errorf("mark of %s is %d (%v), want %d", w, got, err, mark)
		}
	}
	for id, r := range n.runs {
		if len(r.attempts) == 0 && !r.deleted {
			continue // nothing made it known
		}
		if err := compareRun(ctx, e, id, r, limit); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
	}
	if err := compareForks(ctx, e, n, limit); err != nil {
		return err
	}
	if err := compareSelect(ctx, e, n); err != nil {
		return err
	}
	return compareRoster(ctx, e, n)
}

// compareRoster sees that every run that is not deleted is named once, with its
// attempts and the writers of its points.
func compareRoster(ctx context.Context, e store.Engine, n *naive) error {
	kept := map[model.RunID]model.KeptRun{}
	for k := range e.Runs(ctx) {
		if _, twice := kept[k.ID]; twice {
			return fmt.Errorf("run %s is kept twice", k.ID)
		}
		kept[k.ID] = k
	}
	for id, r := range n.runs {
		k, found := kept[id]
		delete(kept, id)
		if want := len(r.attempts) > 0 && !r.deleted; found != want {
			return fmt.Errorf("run %s is kept: %v, want %v", id, found, want)
		}
		if !found {
			continue
		}
		if err := compareKept(k, r); err != nil {
			return fmt.Errorf("kept run %s: %w", id, err)
		}
	}
	if len(kept) > 0 {
		return fmt.Errorf("%d runs are kept that nobody made", len(kept))
	}
	return nil
}

func compareKept(k model.KeptRun, r *naiveRun) error {
	attempts := slices.SortedFunc(maps.Values(r.attempts), func(a, b model.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	if diff := gocmp.Diff(attempts, k.Attempts); diff != "" {
		return fmt.Errorf("attempts (-want +got):\n%s", diff)
	}
	writers := map[model.WriterID]*uint64{}
	for _, w := range k.Writers {
		if _, twice := writers[w.ID]; twice || w.ID.IsZero() {
			return fmt.Errorf("writer %s is kept twice or empty", w.ID)
		}
		if _, known := r.attempts[w.Attempt]; !known {
			return fmt.Errorf("writer %s has the unknown attempt %d", w.ID, w.Attempt)
		}
		writers[w.ID] = w.LoggerID
	}
	for w, logger := range r.loggers {
		if got := writers[w]; (got == nil) != (logger == nil) || got != nil && *got != *logger {
			return fmt.Errorf("the logger of writer %s is another", w)
		}
	}
	for _, s := range r.series {
		for _, p := range s.points {
			if _, known := writers[p.writer]; !known {
				return fmt.Errorf("writer %s is missing", p.writer)
			}
		}
	}
	return nil
}

func compareRun(ctx context.Context, e store.Engine, id model.RunID, r *naiveRun, limit int) error {
	list, err := listAll(ctx, e, id, limit)
	if r.deleted {
		if model.CodeOf(err) != model.CodeNotFound {
			return fmt.Errorf("a deleted run is read: %v", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	texts := sortedTexts(r)
	if len(list) != len(texts) {
		return fmt.Errorf("%d series listed, want %d", len(list), len(texts))
	}
	for i, text := range texts {
		s := r.series[text]
		if err := compareSeries(ctx, e, id, r, s, list[i], limit); err != nil {
			return fmt.Errorf("series %q: %w", text, err)
		}
	}
	if err := compareAcross(ctx, e, id, r, limit); err != nil {
		return err
	}
	return compareEnds(ctx, e, id, r, texts)
}

func sortedTexts(r *naiveRun) []string {
	var out []string
	for text := range r.series {
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func listAll(ctx context.Context, e store.Engine, id model.RunID, limit int) ([]store.Series, error) {
	var out []store.Series
	after := ""
	for {
		page, more, err := e.ListSeries(ctx, id, store.SeriesFilter{After: after, Limit: limit})
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if !more {
			return out, nil
		}
		if len(page) != limit {
			return nil, fmt.Errorf("a page of %d with more to come, limit %d", len(page), limit)
		}
		after = page[len(page)-1].Key.String()
	}
}

func compareSeries(ctx context.Context, e store.Engine, id model.RunID, r *naiveRun, s *naiveSeries, got store.Series, limit int) error {
	if got.Last != nil && s.kind != model.KindFloat && s.kind != model.KindInt {
		if len(got.Last.Value.Doc) > 0 {
			return errors.New("a list has a text or a document")
		}
		end, err := e.Curve(ctx, store.CurveRequest{Run: id, Series: got.ID})
		if err != nil || end.Last == nil {
			return fmt.Errorf("the end of the curve: %+v, %w", end, err)
		}
		got.Last = end.Last
	}
	if got.Extent != nil && (s.kind != model.KindFloat && s.kind != model.KindInt || !gocmp.Equal(got.Extent, extent(r.curve(s), s.kind), gocmp.Comparer(sameNumber))) {
		return fmt.Errorf("values from %+v, want %+v", got.Extent, extent(r.curve(s), s.kind))
	}
	if want := describe(r, s); !gocmp.Equal(want, forget(got), gocmp.Comparer(sameNumber)) {
		return fmt.Errorf("listed as %s", gocmp.Diff(want, forget(got), gocmp.Comparer(sameNumber)))
	}
	direct, _, err := e.ListSeries(ctx, id, store.SeriesFilter{Metric: s.key.Metric, Match: func(k model.SeriesKey) bool { return k.String() == s.key.String() }, Limit: 1})
	if err != nil || len(direct) != 1 || direct[0].ID != got.ID {
		return fmt.Errorf("looked up by name: %v, %v", direct, err)
	}
	for _, kind := range []model.Kind{model.KindFloat, model.KindInt, model.KindText, model.KindHistogram, model.KindScatter} {
		list, _, err := e.ListSeries(ctx, id, store.SeriesFilter{Metric: s.key.Metric, Kinds: []model.Kind{kind}, Limit: limit})
		if err != nil || slices.ContainsFunc(list, func(l store.Series) bool { return l.Kind != kind }) || kind == s.kind && len(list) == 0 {
			return fmt.Errorf("listed by kind %s: %v, %v", kind, list, err)
		}
	}
	sels := []store.Attempts{{}, {All: true}}
	for number := range r.attempts {
		sels = append(sels, store.Attempts{Number: number})
	}
	for _, sel := range sels {
		for _, along := range ways() {
			want := on(r.selected(s, sel), along)
			if err := compareScan(ctx, e, id, got, s, sel, along, want, limit); err != nil {
				return fmt.Errorf("scan of %+v by %+v: %w", sel, along, err)
			}
			if !along.gaps && (s.kind == model.KindFloat || s.kind == model.KindInt) {
				if err := compareBuckets(ctx, e, id, got.ID, s.kind, sel, along.axis, want); err != nil {
					return fmt.Errorf("buckets of %+v by %s: %w", sel, along.axis, err)
				}
			}
		}
	}
	return nil
}

// forget drops what the engine is free to choose.
func forget(s store.Series) store.Series {
	s.ID, s.Extent = 0, nil
	return s
}

// extent is nil where no value is finite.
func extent(curve []point, kind model.Kind) (out *store.Extent) {
	for _, p := range curve {
		v := p.value
		switch {
		case kind == model.KindFloat && v.Float-v.Float != 0:
		case out == nil:
			out = &store.Extent{Min: v, Max: v}
		default:
			// −0 is below 0, as it is for math.Min
			out.Min.Int, out.Max.Int = min(out.Min.Int, v.Int), max(out.Max.Int, v.Int)
			out.Min.Float, out.Max.Float = math.Min(out.Min.Float, v.Float), math.Max(out.Max.Float, v.Float)
		}
	}
	return out
}

func sameNumber(a, b store.Number) bool {
	return math.Float64bits(a.Float) == math.Float64bits(b.Float) && a.Int == b.Int && bytes.Equal(a.Doc, b.Doc)
}

func describe(r *naiveRun, s *naiveSeries) store.Series {
	out := store.Series{Key: s.key, Kind: s.kind}
	for _, a := range model.Axes() {
		if slices.ContainsFunc(s.points, func(p point) bool { _, ok := p.axes[a]; return ok }) {
			out.Axes = append(out.Axes, a)
		}
	}
	curve := r.curve(s)
	out.Count, out.Superseded = uint64(len(curve)), uint64(len(s.points)-len(curve))
	if len(curve) == 0 {
		return out
	}
	out.MinTimeNs, out.MaxTimeNs = curve[0].time, curve[0].time
	for _, p := range curve {
		out.MinTimeNs, out.MaxTimeNs = min(out.MinTimeNs, p.time), max(out.MaxTimeNs, p.time)
	}
	ordered := on(curve, way{axis: model.AxisStep})
	if len(ordered) == 0 {
		ordered = on(curve, way{axis: model.AxisTime})
	}
	last := ordered[len(ordered)-1]
	out.Last = &store.Point{TimeNs: last.time, Value: last.value}
	if step, ok := last.axes[model.AxisStep]; ok {
		out.Last.Step = &step
	}
	return out
}

func compareScan(ctx context.Context, e store.Engine, id model.RunID, got store.Series, s *naiveSeries, sel store.Attempts, along way, want []point, limit int) error {
	req := store.ScanRequest{Run: id, Series: got.ID, Axis: along.axis, Gaps: along.gaps, From: math.MinInt64, To: math.MaxInt64, Attempts: sel, Limit: limit}
	if len(want) > 4 { // and a part of it
		from, _ := want[1].at(along)
		to, _ := want[len(want)-2].at(along)
		part := slices.DeleteFunc(slices.Clone(want), func(p point) bool { x, _ := p.at(along); return x < from || x > to })
		narrow := req
		narrow.From, narrow.To, narrow.Limit = from, to, len(want)
		rows, err := e.Scan(ctx, narrow)
		if err != nil {
			return err
		}
		if err := compareRows(rows, s, part); err != nil {
			return fmt.Errorf("from %d to %d: %w", from, to, err)
		}
	}
	for {
		rows, err := e.Scan(ctx, req)
		if err != nil {
			return err
		}
		n := len(rows.TimeNs)
		if n > limit || n > len(want) || rows.Next == nil && n != len(want) || rows.Next != nil && n != limit {
			return fmt.Errorf("a page of %d rows, %d to come, next %v", n, len(want), rows.Next)
		}
		if err := compareRows(rows, s, want[:n]); err != nil {
			return err
		}
		want = want[n:]
		if rows.Next == nil {
			return nil
		}
		req.After = rows.Next
	}
}

func compareRows(rows *store.Rows, s *naiveSeries, want []point) error {
	if len(rows.TimeNs) != len(want) || rows.Values.Len() != len(want) || len(rows.Attempt) != len(want) || len(rows.Writer) != len(want) || len(rows.Seq) != len(want) {
		return fmt.Errorf("%d rows, want %d", len(rows.TimeNs), len(want))
	}
	if rows.Values.Kind != s.kind || rows.Values.Series.String() != s.key.String() {
		return fmt.Errorf("values are of %q", rows.Values.Series)
	}
	for i := range want {
		p := &want[i]
		if rows.TimeNs[i] != p.time || rows.Attempt[i] != p.attempt || rows.Writer[i] != p.writer || rows.Seq[i] != p.seq {
			return fmt.Errorf("row %d is (%d, %d, %s, %d), want (%d, %d, %s, %d)", i, rows.TimeNs[i], rows.Attempt[i], rows.Writer[i], rows.Seq[i], p.time, p.attempt, p.writer, p.seq)
		}
		got := valueOf(&rows.Values, i)
		if !sameNumber(got, p.value) {
			return fmt.Errorf("row %d holds %+v, want %+v", i, got, p.value)
		}
		for k, a := range rows.Axes {
			v, ok := p.axes[a.Axis]
			has := rows.Has[k] == nil || rows.Has[k][i]
			if has != ok || ok && a.Values[i] != v {
				return fmt.Errorf("row %d has %s %d (%v), want %d (%v)", i, a.Axis, a.Values[i], has, v, ok)
			}
		}
	}
	return nil
}

func valueOf(c *model.Column, i int) store.Number {
	switch c.Kind {
	case model.KindFloat:
		return store.Number{Float: c.Floats[i]}
	case model.KindInt:
		return store.Number{Int: c.Ints[i]}
	case model.KindText:
		return store.Number{Doc: []byte(c.Texts[i])}
	}
	return store.Number{Doc: c.Docs[i]}
}

func compareBuckets(ctx context.Context, e store.Engine, id model.RunID, series store.SeriesID, kind model.Kind, sel store.Attempts, axis model.Axis, want []point) error {
	for _, n := range []int{1, 3, 1000} {
		got, err := e.Buckets(ctx, store.BucketsRequest{Run: id, Series: series, Axis: axis, From: math.MinInt64, To: math.MaxInt64, N: n, Attempts: sel})
		if err != nil {
			return err
		}
		if err := CheckBuckets(got, n, kind, xsOf(want, axis), numbersOf(want)); err != nil {
			return fmt.Errorf("%d buckets: %w", n, err)
		}
	}
	return nil
}

func xsOf(points []point, axis model.Axis) (out []int64) {
	for _, p := range points {
		x, _ := p.x(axis)
		out = append(out, x)
	}
	return out
}

func numbersOf(points []point) (out []store.Number) {
	for _, p := range points {
		out = append(out, p.value)
	}
	return out
}

// CheckBuckets holds buckets against the points, given by rising x, that they
// must sum up.
func CheckBuckets(got []store.Bucket, n int, kind model.Kind, xs []int64, vs []store.Number) error {
	return checkBuckets(got, n, kind, xs, vs, func(b *store.Bucket) bool {
		// Compared as floats: 2/n of the range may not fit an integer.
		return float64(uint64(b.Hi-b.Lo)) <= 2/float64(n)*float64(uint64(xs[len(xs)-1]-xs[0]))*(1+1e-12)
	})
}

// CheckGrid holds the buckets of a grid against the points between from and to.
func CheckGrid(got []store.Bucket, from, to int64, n int, kind model.Kind, xs []int64, vs []store.Number) error {
	column := func(x int64) float64 { // with a fraction
		return float64(uint64(x-from)) * float64(n) / (float64(uint64(to-from)) + 1)
	}
	last := -1.0
	return checkBuckets(got, n, kind, xs, vs, func(b *store.Bucket) bool {
		at := math.Floor((column(b.Lo) + column(b.Hi)) / 2)
		early, late := at-column(b.Lo), column(b.Hi)-at-1
		ok := at > last && early < 1.0/8+1e-9 && late < 1.0/8+1e-9
		last = at
		return ok
	})
}

func checkBuckets(got []store.Bucket, n int, kind model.Kind, xs []int64, vs []store.Number, placed func(*store.Bucket) bool) error {
	if len(got) > n {
		return fmt.Errorf("%d buckets", len(got))
	}
	at := 0
	for i, b := range got {
		if at == len(xs) || b.Lo != xs[at] || b.Hi < b.Lo || !placed(&b) {
			return fmt.Errorf("bucket %d is from %d to %d", i, b.Lo, b.Hi)
		}
		from := at
		for at < len(xs) && xs[at] <= b.Hi {
			at++
		}
		if at == from || xs[at-1] != b.Hi {
			return fmt.Errorf("bucket %d ends at %d", i, b.Hi)
		}
		if err := checkBucket(b, kind, vs[from:at]); err != nil {
			return fmt.Errorf("bucket %d (%d to %d): %w", i, b.Lo, b.Hi, err)
		}
	}
	if at != len(xs) {
		return fmt.Errorf("%d of %d points are in buckets", at, len(xs))
	}
	return nil
}

// checkBucket adds up in numbers of any size, so that no sum overflows here.
func checkBucket(b store.Bucket, kind model.Kind, vs []store.Number) error {
	want := store.Bucket{Lo: b.Lo, Hi: b.Hi}
	sum, size, one := wide(0), wide(0), wide(0)
	take := func(v float64, exact *big.Float) {
		if want.Count == 0 {
			want.Min, want.Max = v, v
		}
		want.Count++
		want.Min, want.Max = min(want.Min, v), max(want.Max, v)
		sum.Add(sum, exact)
		size.Add(size, exact.Abs(exact))
	}
	for _, v := range vs {
		switch f := v.Float; {
		case kind == model.KindInt:
			if want.Count == 0 {
				want.MinInt, want.MaxInt = v.Int, v.Int
			}
			want.MinInt, want.MaxInt = min(want.MinInt, v.Int), max(want.MaxInt, v.Int)
			take(float64(v.Int), one.SetInt64(v.Int))
		case math.IsNaN(f):
			want.NaN++
		case math.IsInf(f, 1):
			want.PosInf++
		case math.IsInf(f, -1):
			want.NegInf++
		default:
			take(f, one.SetFloat64(f))
		}
	}
	if want.Count == 0 {
		b.Min, b.Max, b.Sum, b.Excess = 0, 0, 0, 0
	} else if err := checkMean(&b, sum, size); err != nil {
		return err
	}
	b.Sum, b.Excess = 0, 0
	if b != want {
		return fmt.Errorf("is %+v, want %+v", b, want)
	}
	return nil
}

func wide(f float64) *big.Float { return new(big.Float).SetPrec(256).SetFloat64(f) }

// checkMean allows for any order of adding.
func checkMean(b *store.Bucket, sum, size *big.Float) error {
	if math.IsNaN(b.Sum+b.Excess) || math.IsInf(b.Sum, 0) || math.IsInf(b.Excess, 0) {
		return fmt.Errorf("the sum is %g and %g", b.Sum, b.Excess)
	}
	total := wide(b.Excess)
	total.Mul(total, wide(store.ExcessUnit)).Add(total, wide(b.Sum))
	slack := new(big.Float).Mul(size, wide(1e-9))
	if off := new(big.Float).Sub(total, sum); off.Abs(off).Cmp(slack) > 0 {
		return fmt.Errorf("the sum is %.17g, want %.17g", total, sum)
	}
	mean, ok := b.Mean()
	n := wide(float64(b.Count))
	if !ok || math.IsNaN(mean) || math.IsInf(mean, 0) || mean < b.Min || mean > b.Max {
		return fmt.Errorf("the mean of %d values from %g to %g is %g", b.Count, b.Min, b.Max, mean)
	}
	off := new(big.Float).Sub(wide(mean), new(big.Float).Quo(sum, n))
	least := off.Abs(off).Cmp(wide(math.SmallestNonzeroFloat64)) <= 0 // no float64 is nearer
	if off.Mul(off, n).Cmp(slack) > 0 && b.Min != b.Max && !least {
		return fmt.Errorf("the mean is %g, want %.17g / %d", mean, sum, b.Count)
	}
	return nil
}

func compareEnds(ctx context.Context, e store.Engine, id model.RunID, r *naiveRun, texts []string) error {
	starts, envs, complete, err := e.Ends(ctx, id, 1000)
	if err != nil || !complete {
		return fmt.Errorf("ends: complete %v, %w", complete, err)
	}
	wantStarts, wantEnvs := ends(r, texts)
	if diff := gocmp.Diff(wantStarts, starts); diff != "" {
		return fmt.Errorf("starts: %s", diff)
	}
	if diff := gocmp.Diff(wantEnvs, envs); diff != "" {
		return fmt.Errorf("environments: %s", diff)
	}
	stats, err := e.RunStats(ctx, id)
	if err != nil {
		return fmt.Errorf("stats: %w", err)
	}
	return compareStats(r, stats)
}

func compareStats(r *naiveRun, got store.RunStats) error {
	want := store.RunStats{Series: uint64(len(r.series)), Refused: r.refused}
	for _, s := range r.series {
		for _, p := range s.points {
			if want.Stored == 0 {
				want.MinTimeNs, want.MaxTimeNs = p.time, p.time
			}
			want.Stored++
			want.MinTimeNs, want.MaxTimeNs = min(want.MinTimeNs, p.time), max(want.MaxTimeNs, p.time)
		}
		want.Superseded += uint64(len(s.points) - len(r.curve(s)))
	}
	byRange := func(a, b model.Skipped) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Points, b.Points))
	}
	want.Skipped, got.Skipped = slices.SortedFunc(slices.Values(r.skipped), byRange), slices.SortedFunc(slices.Values(got.Skipped), byRange)
	if diff := gocmp.Diff(want, got); diff != "" {
		return fmt.Errorf("stats: %s", diff)
	}
	return nil
}

func ends(r *naiveRun, texts []string) (starts []model.Start, out []model.EnvEnd) {
	envs := map[string]*model.EnvEnd{}
	for _, text := range texts {
		s := r.series[text]
		start := model.Start{Metric: s.key.Metric, Scale: s.key.Scale, Labels: s.key.LabelMap()}
		key := naiveStart{series: text}
		for _, p := range r.curve(s) {
			ep, ok := p.axes[model.AxisEpisode]
			if ok && s.key.Scale == model.ScaleEnvironment && (start.Episode == nil || *start.Episode < ep) {
				start.Episode, key.episode, key.has = &ep, ep, true
			}
			widen(envs, s.key, &p)
		}
		start.Next = r.nextStep(key)
		starts = append(starts, start)
	}
	for _, env := range envs {
		out = append(out, *env)
	}
	slices.SortFunc(out, func(a, b model.EnvEnd) int { return cmp.Compare(a.Env, b.Env) })
	return starts, out
}

func widen(envs map[string]*model.EnvEnd, key model.SeriesKey, p *point) {
	name, labelled := key.LabelMap()[model.LabelEnv]
	_, hasRL := p.axes[model.AxisRLStep]
	if !labelled {
		return
	}
	if hasRL {
		if envs[name] == nil {
			envs[name] = &model.EnvEnd{Env: name, LastRLStep: p.axes[model.AxisRLStep]}
		}
		envs[name].LastRLStep = max(envs[name].LastRLStep, p.axes[model.AxisRLStep])
	}
	if ep, ok := p.axes[model.AxisEpisode]; ok && envs[name] != nil && (envs[name].LastEpisode == nil || *envs[name].LastEpisode < ep) {
		envs[name].LastEpisode = &ep
	}
}
