package importer

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// csvHelp tells a person what newLayout does.
const csvHelp = `Read CSV files, separated by commas, semicolons, tabs or bars, in UTF-8 or UTF-16, also
compressed (.gz, .zst, .bz2, .xz, or a .zip archive of one file). Where no comma separates,
it may be the decimal point. NA, null, None and the like are no values. The first line
names the columns; what each row is follows from it:

  a step          a column is a metric, numbers or texts; empty cells are no points
  a value         columns metric and value (and step, time_ns, labels, kind), as
                  kymogram export --format csv writes them, or attribute_path,
                  attribute_type and float_value, …, as Neptune's exporter does
  a run           W&B's table of runs, MLflow's search_runs, Neptune's table of runs:
                  state, created, runtime, tags, notes and texts become those of the
                  run, numbers its metrics, params.…, config/… its configuration
  runs side by    W&B's export of a chart: columns "RUN - METRIC" with
  side            "RUN - METRIC__MIN" and "…__MAX"

Times are dates, Unix seconds, ms, µs or ns (told by their size), or relative:
seconds below 3 years, or 1:02:03.5; an empty one is that of the row before. A run's
duration is that of its times.`

// The usual names of columns, in the order of preference; all are compared
// without regard to case.
var (
	csvSteps = []string{"step", "_step", "global_step", "iteration", "iter", "update", "batch", "epoch", "time/total_timesteps", "total_timesteps"}
	csvTimes = []string{
		"time_ns", "timestamp_ns", "timestamp_ms", "timestamp", "_timestamp", "wall_time", "wall time", "time", "datetime", "date",
		"relative time (wall)", "relative time (process)", "relative_time", "relative time", "elapsed_time", "time_elapsed", "time/time_elapsed", "elapsed", "_runtime",
	}
	csvRuns   = []string{"run_id", "run id", "sys/custom_run_id", "sys/id", "run", "run_name", "id", "name"}
	csvConfig = []string{"config/", "config.", "params.", "params/", "param.", "parameters/", "parameters.", "hparams/", "hparams."}
	csvFailed = []string{"failed", "killed", "crashed", "true"} // also of the column sys/failed
	csvDates  = []string{
		time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", time.DateOnly,
		"2006-01-02 15:04", "2006-01-02T15:04", "2006/01/02 15:04:05.999999999", "2006/01/02 15:04", "2006/01/02", "20060102T150405Z07:00", time.RFC1123, time.RFC1123Z,
		"Jan 2, 2006 3:04:05 PM", "Jan 2, 2006 3:04 PM",
	}
)

// relativeBelow are 3 years of seconds: as Unix time they would be of 1970 to 1973.
const relativeBelow = 100_000_000

// csvKinds are the kinds of `kymogram export`.
var csvKinds = map[string]model.Kind{
	"float64": model.KindFloat, "int64": model.KindInt, "text": model.KindText, "histogram": model.KindHistogram, "scatter": model.KindScatter,
}

// What a column holds.
type csvRole int

const (
	roleNone    csvRole = iota // step, time, run, and what makes a long row
	roleMetric                 // a value a row
	roleConfig                 // a value of the configuration
	roleUnnamed                // nothing that could be named
	// Of a table of runs:
	roleAttribute
	roleName
	roleStatus
	roleStarted
	roleEnded
	roleRuntime
	roleTags
	roleNotes
)

// csvFacts are what the tables of runs of W&B, MLflow and Neptune say of a run.
var csvFacts = map[string]csvRole{
	"name": roleName, "run_name": roleName, "sys/name": roleName, "tags.mlflow.runname": roleName,
	"state": roleStatus, "status": roleStatus, "sys/state": roleStatus, "sys/failed": roleStatus,
	"created": roleStarted, "created_at": roleStarted, "start_time": roleStarted, "sys/creation_time": roleStarted,
	"end_time": roleEnded, "runtime": roleRuntime, "duration": roleRuntime, "sys/running_time": roleRuntime,
	"tags": roleTags, "sys/tags": roleTags,
	"notes": roleNotes, "sys/description": roleNotes, "tags.mlflow.note.content": roleNotes,
}

type csvColumn struct {
	name string // of the metric, the setting or the attribute
	role csvRole
	run  string // of a chart's column
	of   int    // of a chart's column of least or most: that of the value, else -1
}

// layout says what the columns of a sheet are.
type layout struct {
	columns             []csvColumn
	step, time, runs    int // columns, -1 without
	metric, value, kind int
	scale, labels       int
	axes                []int          // columns of axes beside the step
	typed               map[string]int // Neptune's column of each type
	names               bool           // the column names tell of runs: W&B's chart
	steps               map[string]int // a chart's column of a run's own steps
	each                bool           // each row is a run
}

func (l *layout) long() bool { return l.metric >= 0 && (l.value >= 0 || l.typed != nil) }

// severalRuns reports whether the sheet may hold more than one run.
func (l *layout) severalRuns() bool { return l.names || l.runs >= 0 }

func newLayout(header []string, opts CSVOptions) (l layout, err error) {
	for i, name := range header {
		header[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
	}
	l = layout{columns: make([]csvColumn, len(header))}
	if l.step, err = column(header, opts.Step, csvSteps); err != nil {
		return l, err
	}
	if l.time, err = column(header, opts.Time, csvTimes); err != nil {
		return l, err
	}
	l.findLong(header)
	if l.runs, err = column(header, opts.Run, csvRuns); err != nil {
		return l, err
	}
	l.each = l.runs >= 0 && l.step < 0 && !l.long() && slices.ContainsFunc(header, func(name string) bool {
		role := csvFacts[strings.ToLower(name)]
		return role == roleStatus || role == roleStarted
	})
	if opts.Run == "" && !l.each && l.runs >= 0 && slices.Contains([]string{"id", "name"}, strings.ToLower(header[l.runs])) {
		l.runs = -1 // anything may be called so
	}
	if l.each && l.time >= 0 && opts.Time == "" {
		l.time = -1 // a run's start and end tell it
	}
	if l.step < 0 && len(header) > 1 && header[0] == "" && !l.each && !l.long() {
		l.step = 0 // the index that pandas writes
	}
	before := map[string]int{}
	for i, name := range header {
		l.columns[i] = l.column(i, name, opts.Config)
		if n := before[name]; n > 0 && l.columns[i].role == roleMetric {
			l.columns[i].name += "." + strconv.Itoa(n) // as pandas names it
		}
		before[name]++
	}
	l.findChart(header)
	for _, name := range opts.Config {
		if !slices.Contains(header, name) {
			return l, noColumn(name, header)
		}
	}
	return l, nil
}

// findLong looks for rows of one value: the columns metric and value, or
// attribute_path and float_value, string_value, … of Neptune's exporter.
func (l *layout) findLong(header []string) {
	l.metric, l.value = slices.Index(header, "metric"), slices.Index(header, "value")
	l.scale, l.labels, l.kind = slices.Index(header, "scale"), slices.Index(header, "labels"), slices.Index(header, "kind")
	if path, kind := slices.Index(header, "attribute_path"), slices.Index(header, "attribute_type"); l.metric < 0 && path >= 0 && kind >= 0 {
		l.metric, l.value, l.kind, l.typed = path, -1, kind, map[string]int{}
		for i, name := range header {
			if kind, ok := strings.CutSuffix(name, "_value"); ok {
				l.typed[kind] = i
			}
		}
	}
	for _, axis := range model.Axes()[1:] {
		if i := slices.Index(header, string(axis)); i >= 0 && i != l.step && l.long() {
			l.axes = append(l.axes, i)
		}
	}
}

func (l *layout) column(i int, name string, config []string) csvColumn {
	c := csvColumn{name: name, of: -1}
	lower := strings.ToLower(name)
	switch {
	case slices.Contains(config, name):
		c.role = roleConfig
	case l.each && csvFacts[lower] != roleNone && i != l.step && i != l.time:
		c.role = csvFacts[lower] // of the run's name too
	case i == l.step || i == l.time || i == l.runs || l.long():
	case name == "":
		c.role = roleUnnamed
	case l.each && (strings.HasPrefix(lower, "tags.") || strings.HasPrefix(lower, "sys/") || slices.Contains([]string{"experiment_id", "artifact_uri", "user", "sweep", "id", "group", "job type", "hostname"}, lower)):
		c.role = roleAttribute
	default:
		c.role = roleMetric
		for _, prefix := range csvConfig {
			if len(name) > len(prefix) && strings.HasPrefix(lower, prefix) {
				c.role, c.name = roleConfig, name[len(prefix):]
			}
		}
		if l.each && strings.HasPrefix(lower, "metrics.") {
			c.name = name[len("metrics."):]
		}
	}
	return c
}

// findChart looks for W&B's export of a chart: columns "RUN - METRIC", each with
// "RUN - METRIC__MIN" and "…__MAX".
func (l *layout) findChart(header []string) {
	if l.runs >= 0 || l.long() {
		return
	}
	place := map[string]int{}
	for i, name := range slices.Backward(header) {
		place[name] = i
	}
	for i, name := range header {
		_, least := place[name+"__MIN"]
		_, most := place[name+"__MAX"]
		if !strings.Contains(name, " - ") || !least || !most {
			continue
		}
		at := strings.LastIndex(name, " - ")
		run, metric := name[:at], name[at+len(" - "):]
		if l.steps == nil {
			l.steps = map[string]int{}
		}
		l.names = true
		for _, end := range []string{"", "__MIN", "__MAX"} {
			c := &l.columns[place[name+end]]
			c.run, c.name, c.role = run, metric+end, roleMetric
			if end != "" {
				c.of = i
			}
			if metric == "_step" {
				c.role = roleNone
				l.steps[run] = i
			}
		}
	}
	for i := range l.columns {
		if c := &l.columns[i]; l.names && c.run == "" && c.role == roleMetric {
			c.role = roleNone
			if l.step < 0 {
				l.step = i // the chart's x axis
			}
		}
	}
}

// column is the place of a named column, or of the first usual one.
func column(header []string, named string, usual []string) (int, error) {
	if named != "" {
		if i := slices.Index(header, named); i >= 0 {
			return i, nil
		}
		return -1, noColumn(named, header)
	}
	for _, name := range usual {
		if i := slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(h, name) }); i >= 0 {
			return i, nil
		}
	}
	return -1, nil
}

func noColumn(name string, header []string) error {
	return model.Errorf(model.CodeInvalid, "there is no column %q", name).WithHint("the columns are %s", strings.Join(header, ", "))
}
