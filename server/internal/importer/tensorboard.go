package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// findTensorBoard finds the folders with event files; each is a run, as in
// TensorBoard, named by its path.
func findTensorBoard(_ context.Context, path string, opts Options) ([]Found, error) {
	files := map[string][]string{}
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.Contains(entry.Name(), "tfevents") && isFile(name, entry) {
			folder := filepath.Dir(name)
			files[folder] = append(files[folder], name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for event files: %w", err)
	}
	var found []Found
	for folder, names := range files {
		key, err := keyOf(path, folder)
		if err != nil {
			return nil, err
		}
		slices.Sort(names)
		found = append(found, Found{Key: key, Name: key, Bytes: sizeOf(names), Read: func(ctx context.Context) (*Run, error) {
			return readTensorBoard(ctx, names, opts)
		}})
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// keyOf names what lies at place below root: its path, or root's own name.
func keyOf(root, place string) (string, error) {
	rel, err := filepath.Rel(root, place)
	if err == nil && rel != "." && !strings.HasPrefix(rel, "..") {
		return filepath.ToSlash(rel), nil
	}
	whole, err := filepath.Abs(place)
	if err != nil {
		return "", fmt.Errorf("name %s: %w", place, err)
	}
	return filepath.Base(whole), nil
}

// events gathers the events of one folder.
type events struct {
	*builder
	plugins map[string]string // by tag: only its first value names it
	records int               // that are events
}

func readTensorBoard(ctx context.Context, names []string, opts Options) (*Run, error) {
	e := &events{builder: newBuilder(), plugins: map[string]string{}}
	for _, name := range names {
		if err := e.file(ctx, name, opts); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	run := e.done()
	run.spanPoints()
	return run, e.isRun(names[0])
}

// isRun refuses files that hold nothing but damage, or nothing at all.
func (e *events) isRun(name string) error {
	switch {
	case e.records > 0:
		return nil
	case len(e.run.Damage) > 0:
		return model.Errorf(model.CodeInvalid, "%s: it is no event file of TensorBoard: %s", name, e.run.Damage[0].Text)
	}
	return model.Errorf(model.CodeInvalid, "%s: it is empty", name)
}

func (e *events) file(ctx context.Context, name string, opts Options) error {
	f, err := opts.open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	base := filepath.Base(name)
	record := func(data []byte) {
		if err := e.event(data); err != nil {
			e.damage(base, -1, "a record is no event: %v", err)
			return
		}
		e.records++
	}
	return tfRecords(f, record, func(d damaged) { e.damage(base, d.offset, "%s", d.text) })
}

// event reads tensorflow.Event: wall_time 1, step 2, graph_def 4, summary 5, log_message 6,
// session_log 7, tagged_run_metadata 8, meta_graph_def 9.
func (e *events) event(msg []byte) error {
	var wall float64
	var step int64
	var summary []byte
	started := false
	for f, err := range fields(msg) {
		switch {
		case err != nil:
			return err
		case f.num == 1:
			wall = f.double()
		case f.num == 2:
			step = int64(f.u)
		case f.num == 5:
			summary = f.b
		case f.num == 4, f.num == 9:
			e.skip("graphs")
		case f.num == 6, f.num == 8:
			e.skip("messages and measurements of TensorFlow itself")
		case f.num == 7:
			started = sessionStarted(f.b)
		}
	}
	if started {
		e.purge(step)
	}
	var problems []error
	for f, err := range fields(summary) {
		if err != nil {
			return err
		}
		if f.num == 1 {
			problems = append(problems, e.value(f.b, step, seconds(wall)))
		}
	}
	return errors.Join(problems...)
}

// sessionStarted reads tensorflow.SessionLog: status 1, of which START is 1.
func sessionStarted(msg []byte) bool {
	for f, err := range fields(msg) {
		if err == nil && f.num == 1 {
			return f.u == 1
		}
	}
	return false
}

// purge drops what was logged at a step and later: a program began there anew.
func (e *events) purge(step int64) {
	for _, s := range e.series {
		before := len(s.Steps)
		s.keep(func(i int) bool { return s.Steps[i] < step })
		if n := before - len(s.Steps); n > 0 {
			e.run.Skipped["points that a restart replaces, as in TensorBoard"] += uint64(n)
		}
	}
}

// keep drops the points for which keep is false.
func (s *Series) keep(keep func(i int) bool) {
	n := 0
	for i := range s.Steps {
		if !keep(i) {
			continue
		}
		s.Steps[n], s.TimeNs[n] = s.Steps[i], s.TimeNs[i]
		if s.Kind == model.KindFloat {
			s.Floats[n] = s.Floats[i]
		} else {
			s.Docs[n] = s.Docs[i]
		}
		n++
	}
	s.Steps, s.TimeNs = s.Steps[:n], s.TimeNs[:n]
	if s.Kind == model.KindFloat {
		s.Floats = s.Floats[:n]
	} else {
		s.Docs = s.Docs[:n]
	}
}

// value reads tensorflow.Summary.Value: tag 1, simple_value 2, histo 5, tensor 8,
// metadata 9; the other values are media.
func (e *events) value(msg []byte, step, timeNs int64) error {
	tag, media := "", ""
	var tensor, histo, metadata *field
	var simple *float64
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		switch f.num {
		case 1:
			tag = string(f.b)
		case 2:
			v := f.float()
			simple = &v
		case 4:
			media = "images"
		case 5:
			histo = &f
		case 6:
			media = "audio"
		case 8:
			tensor = &f
		case 9:
			metadata = &f
		}
	}
	content, err := e.plugin(tag, metadata)
	switch {
	case err != nil:
		return err
	case e.plugins[tag] == "hparams":
		return e.hparams(content)
	case simple != nil:
		e.float(tag, step, timeNs, *simple)
	case histo != nil:
		return e.histo(tag, step, timeNs, histo.b)
	case tensor != nil:
		return e.tensor(tag, step, timeNs, tensor.b)
	case media != "":
		e.skipOf(media, tag)
	}
	return nil
}

// plugin reads SummaryMetadata: plugin_data 1 with plugin_name 1 and content 2.
func (e *events) plugin(tag string, metadata *field) (content []byte, err error) {
	if metadata == nil {
		return nil, nil
	}
	for f, err := range fields(metadata.b) {
		if err != nil {
			return nil, err
		}
		if f.num != 1 {
			continue
		}
		for p, err := range fields(f.b) {
			switch {
			case err != nil:
				return nil, err
			case p.num == 1:
				e.plugins[tag] = string(p.b)
			case p.num == 2:
				content = p.b
			}
		}
	}
	return content, nil
}

// tensor reads a value by what its plugin says it is.
func (e *events) tensor(tag string, step, timeNs int64, msg []byte) error {
	t, err := readTensor(msg)
	if err != nil {
		return err
	}
	plugin := e.plugins[tag]
	switch {
	case plugin == "text" || plugin == "" && t.texts != nil:
		e.text(strings.TrimSuffix(tag, "/text_summary"), step, timeNs, strings.Join(t.texts, "\n"))
	case (plugin == "scalars" || plugin == "") && len(t.numbers) == 1:
		e.float(tag, step, timeNs, t.numbers[0])
	case plugin == "histograms":
		e.histogram(tag, step, timeNs, t.histogram())
	case plugin == "":
		e.skipOf("tensors", tag)
	default:
		e.skipOf(plugin, tag)
	}
	return nil
}

// histo reads HistogramProto: min 1, max 2, num 3, sum 4, sum_squares 5,
// bucket_limit 6, bucket 7.
func (e *events) histo(tag string, step, timeNs int64, msg []byte) error {
	var stats model.HistogramStats
	var limits, counts []float64
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		switch f.num {
		case 1:
			stats.Min = f.double()
		case 2:
			stats.Max = f.double()
		case 4:
			stats.Sum = f.double()
		case 5:
			stats.SumOfSquares = f.double()
		case 6:
			limits = f.doubles(limits)
		case 7:
			counts = f.doubles(counts)
		}
	}
	if len(limits) != len(counts) {
		return fmt.Errorf("a histogram has %d limits and %d counts", len(limits), len(counts))
	}
	bins := make([]bin, len(limits))
	for i := range limits {
		bins[i] = bin{stats.Min, limits[i], counts[i]}
		if i > 0 {
			bins[i].left = limits[i-1]
		}
	}
	if len(bins) > 0 && bins[0].left > bins[0].right {
		bins[0].left = bins[0].right
	}
	e.histogram(tag, step, timeNs, histogramOf(bins, &stats))
	return nil
}

// hparams reads HParamsPluginData: session_start_info 3 with hparams 1, a map to
// google.protobuf.Value; session_end_info 4 with status 1, FAILURE being 2.
func (e *events) hparams(content []byte) error {
	for f, err := range fields(content) {
		if err != nil {
			return err
		}
		for inner, err := range fields(f.b) {
			switch {
			case f.typ != 2:
			case err != nil:
				return err
			case f.num == 3 && inner.num == 1:
				if err := e.hparam(inner.b); err != nil {
					return err
				}
			case f.num == 4 && inner.num == 1:
				e.run.Failed = inner.u == 2
			}
		}
	}
	return nil
}

// hparam reads an entry: key 1, value 2, a Value: number 2, string 3, bool 4.
func (e *events) hparam(entry []byte) error {
	name := ""
	var value *model.Value
	for f, err := range fields(entry) {
		if err != nil {
			return err
		}
		if f.num == 1 {
			name = string(f.b)
			continue
		}
		for v, err := range fields(f.b) {
			switch {
			case err != nil:
				return err
			case v.num == 2:
				value = model.FloatValue(v.double())
			case v.num == 3:
				value = model.StringValue(string(v.b))
			case v.num == 4:
				value = model.BoolValue(v.u != 0)
			}
		}
	}
	e.attribute("config/"+strings.Trim(name, "/"), value)
	return nil
}
