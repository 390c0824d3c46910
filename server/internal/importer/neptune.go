package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

const neptuneHelp = `Read the folder that neptune-exporter wrote, with data/ and files/ in it, or data/ alone.
Each run keeps its id as its name, and goes into the project of its name. Parameters become
the configuration, other values attributes. Series of numbers, texts and histograms keep
their steps and times. Files become files of the run. A fork continues its parent.
Steps with fractions are multiplied by the least power of 10 that makes them whole.`

// part is the name of a file of neptune-exporter: RUN_part_N.parquet; part 0 comes last.
var part = regexp.MustCompile(`^(.+)_part_([0-9]+)\.parquet$`)

// neptuneColumns are those of neptune-exporter's schema that say what a row is.
var neptuneColumns = []string{"project_id", "run_id", "attribute_path", "attribute_type"}

func findNeptune(ctx context.Context, root string, opts Options) ([]Found, error) {
	data, files := neptuneFolders(root, opts.Files)
	parts := map[string]map[int]string{} // by run
	err := filepath.WalkDir(data, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if m := part.FindStringSubmatch(entry.Name()); m != nil && isFile(name, entry) {
			run := filepath.Join(filepath.Dir(name), m[1])
			if parts[run] == nil {
				parts[run] = map[int]string{}
			}
			n, _ := strconv.Atoi(m[2])
			parts[run][n] = name
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the files of neptune-exporter: %w", err)
	}
	var found []Found
	for run, numbered := range parts {
		one, err := neptuneFound(ctx, run, numbered, data, files, opts)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b Found) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// neptuneFolders are the folders of the tables and of the files: data and files in root,
// or beside one another.
func neptuneFolders(root, files string) (string, string) {
	data := root
	if info, err := os.Stat(filepath.Join(root, "data")); err == nil && info.IsDir() {
		data = filepath.Join(root, "data")
	}
	if files == "" {
		if whole, err := filepath.Abs(data); err == nil {
			files = filepath.Join(filepath.Dir(whole), strings.Replace(filepath.Base(whole), "data", "files", 1))
		}
	}
	return data, files
}

// neptuneFound is a run by its parts; its names stand in its first row.
func neptuneFound(ctx context.Context, run string, numbered map[int]string, data, files string, opts Options) (Found, error) {
	var names []string
	for n := range len(numbered) {
		if numbered[n] == "" {
			return Found{}, model.Errorf(model.CodeInvalid, "%s_part_%d.parquet is missing: the export of this run was not finished", run, n).
				WithHint("run neptune-exporter again, or move the other parts of the run away")
		}
		names = append(names, numbered[n])
	}
	place, err := filepath.Rel(data, run)
	if err != nil {
		return Found{}, err
	}
	folder, _, _ := strings.Cut(filepath.ToSlash(place), "/")
	project, id, err := neptuneIDs(ctx, names[0])
	if err != nil {
		return Found{}, of(names[0], err)
	}
	short := project[strings.LastIndexByte(project, '/')+1:]
	return Found{
		Key: project + "/" + id, Name: CleanRunName(id), ByKey: true, Project: short, Bytes: sizeOf(names),
		Read: func(ctx context.Context) (*Run, error) {
			n := &neptuneRun{builder: newBuilder(), project: project, id: id, rows: map[string]int64{}}
			n.texts, n.points = newAllowance(sizeOf(names)), newPoints(sizeOf(names))
			if root, err := os.OpenRoot(filepath.Join(files, folder)); err == nil {
				n.root = root
			}
			for _, name := range names {
				if err := n.table(ctx, name, opts); err != nil {
					return nil, of(name, err)
				}
			}
			return n.end(), nil
		},
	}, nil
}

var errEnough = errors.New("enough is read")

func neptuneIDs(ctx context.Context, name string) (project, id string, err error) {
	err = Options{}.parquet(ctx, name, func(p *parquetFile) error {
		at, err := neptunePlaces(p.names())
		if err != nil {
			return err
		}
		return p.rows(ctx, func(cells []any) error {
			project, id = cellText(cells[at["project_id"]]), cellText(cells[at["run_id"]])
			return errEnough
		})
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil:
		err = model.Errorf(model.CodeInvalid, "it holds no row")
	}
	if err == nil && id == "" {
		err = model.Errorf(model.CodeInvalid, "its first row names no run")
	}
	return project, id, err
}

func neptunePlaces(names []string) (map[string]int, error) {
	at := map[string]int{}
	for i, name := range names {
		at[name] = i
	}
	for _, name := range neptuneColumns {
		if _, ok := at[name]; !ok {
			return nil, model.Errorf(model.CodeInvalid, "it is no table of neptune-exporter: it has no column %s", name).
				WithHint("the columns are %s; see kymogram import parquet", strings.Join(names, ", "))
		}
	}
	return at, nil
}

// micro is how many units of our own a step of Neptune has: it is a decimal of 6 places.
const micro = 1_000_000

// neptuneRun gathers the rows of a run. Steps are in millionths until its end.
type neptuneRun struct {
	*builder
	project, id string
	root        *os.Root         // with the files, nil where there are none
	rows        map[string]int64 // of series without steps
	running     float64
	forkAt      *big.Rat
}

func (n *neptuneRun) table(ctx context.Context, name string, opts Options) error {
	return opts.parquet(ctx, name, func(p *parquetFile) error {
		at, err := neptunePlaces(p.names())
		if err != nil {
			return err
		}
		return p.rows(ctx, func(cells []any) error {
			n.row(func(column string) any {
				if i, ok := at[column]; ok {
					return cells[i]
				}
				return nil
			})
			return n.points.check()
		})
	})
}

func (n *neptuneRun) row(cell func(column string) any) {
	if cellText(cell("run_id")) != n.id || cellText(cell("project_id")) != n.project {
		n.skip("rows of another run")
		return
	}
	name, kind := cellText(cell("attribute_path")), cellText(cell("attribute_type"))
	when := int64(0)
	if t, ok := cell("timestamp").(time.Time); ok {
		when = t.UnixNano()
	}
	switch kind {
	case "float_series", "int_series", "string_series", "histogram_series":
		if step, ok := n.step(name, cell("step")); ok {
			n.point(name, kind, step, when, cell(strings.TrimSuffix(kind, "_series")+"_value"))
		}
	case "file", "file_series", "file_set", "artifact":
		n.file(name, cell("step"), cell("file_value"))
	case "float", "int", "string", "bool", "datetime", "string_set":
		if value := cell(kind + "_value"); value != nil {
			n.single(name, value)
		}
	default:
		n.skip("values of the type " + strconv.Quote(kind))
	}
}

// step is a step in millionths; without one the series counts its points.
func (n *neptuneRun) step(name string, cell any) (int64, bool) {
	step, ok := cell.(*big.Rat)
	if whole, isWhole := cell.(int64); isWhole {
		step, ok = new(big.Rat).SetInt64(whole), true
	}
	if f, isFloat := cell.(float64); isFloat {
		step = new(big.Rat).SetFloat64(f)
		ok = step != nil
	}
	if cell == nil {
		n.rows[name]++
		return (n.rows[name] - 1) * micro, true
	}
	if !ok {
		n.skipOf("points whose step is no number", name)
		return 0, false
	}
	scaled := new(big.Rat).Mul(step, new(big.Rat).SetInt64(micro))
	if !scaled.IsInt() || !scaled.Num().IsInt64() {
		n.skipOf("points with a step of more than 6 decimal places, or out of range", name)
		return 0, false
	}
	return scaled.Num().Int64(), true
}

func (n *neptuneRun) point(name, kind string, step, when int64, value any) {
	switch v := value.(type) {
	case nil:
		n.skipOf("points without a value", name)
	case float64:
		n.float(name, step, when, v)
	case int64:
		n.number(name, step, when, strconv.FormatInt(v, 10), float64(v))
	case string:
		n.text(name, step, when, v)
	case map[string][]any:
		n.histogram(name, step, when, neptuneHistogram(v))
	default:
		n.skip("values of " + kind + " of another type")
	}
}

// neptuneHistogram reads {type, edges, values}: counts, or densities, which are counts by
// the width of their bin.
func neptuneHistogram(v map[string][]any) *model.Histogram {
	edges, values := v["edges"], v["values"]
	if len(edges) != len(values)+1 {
		return nil
	}
	dense := len(v["type"]) > 0 && strings.Contains(strings.ToLower(cellText(v["type"][0])), "dens")
	bins := make([]bin, len(values))
	for i := range bins {
		left, _ := edges[i].(float64)
		right, _ := edges[i+1].(float64)
		count, _ := values[i].(float64)
		if dense {
			count *= right - left
		}
		bins[i] = bin{left, right, count}
	}
	return histogramOf(bins, nil)
}

// single is a value that a run has one of.
func (n *neptuneRun) single(name string, value any) {
	text := cellText(value)
	set, isSet := value.(map[string][]any)
	var attribute *model.Value
	switch v := value.(type) {
	case bool:
		attribute = model.BoolValue(v)
	case int64:
		attribute = model.IntValue(v)
	case float64:
		attribute = model.FloatValue(v)
	case time.Time:
		attribute = model.TimeValue(v.UnixNano())
	default:
		attribute = model.StringValue(text)
	}
	if isSet {
		var members []string
		for _, one := range set[""] {
			members = append(members, clean(cellText(one), maxTag))
		}
		if name == "sys/tags" {
			for _, tag := range members {
				n.tag(tag)
			}
			return
		}
		attribute = model.SetValue(members)
	}
	n.system(name, text, value)
	for _, prefix := range csvConfig {
		if short, ok := strings.CutPrefix(name, prefix); ok && short != "" {
			name = "config/" + short
			break
		}
	}
	n.attribute(name, attribute)
}

// system takes what Neptune itself says of a run.
func (n *neptuneRun) system(name, text string, value any) {
	switch name {
	case "sys/name":
		n.run.DisplayName, n.run.Experiment = CleanRunName(text), CleanRunName(text)
	case "sys/description":
		n.run.Description = model.CutBytes(strings.ToValidUTF8(text, "\ufffd"), maxText)
	case "sys/failed":
		n.run.Failed = text == "true"
	case "sys/creation_time":
		if t, ok := value.(time.Time); ok {
			n.run.StartedNs = t.UnixNano()
		}
	case "sys/running_time":
		n.running, _ = value.(float64)
	case "sys/forking/parent":
		n.run.ForkFrom = CleanRunName(text)
	case "sys/forking/step":
		n.forkAt, _ = new(big.Rat).SetString(text)
	}
}

// file is a file of the run, or a folder of them.
func (n *neptuneRun) file(name string, step, value any) {
	doc, _ := value.(map[string][]any)
	if len(doc["path"]) == 0 {
		n.skipOf("files that were not downloaded", name)
		return
	}
	from := cellText(doc["path"][0])
	if n.root == nil || !filepath.IsLocal(filepath.FromSlash(from)) {
		n.skipOf("files that are not in the folder of files", name)
		return
	}
	if step != nil {
		name += "/step_" + cellText(step)
	}
	info, err := n.root.Stat(from)
	switch {
	case err != nil:
		n.skipOf("files that are not in the folder of files", name)
	case !info.IsDir():
		if path.Ext(name) == "" || step != nil {
			name += path.Ext(from)
		}
		n.addFile(name, from, info)
	default:
		err := fs.WalkDir(n.root.FS(), path.Clean(from), func(inner string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				n.addFile(name+strings.TrimPrefix(inner, path.Clean(from)), inner, info)
			}
			return err
		})
		if err != nil {
			n.damage(from, -1, "the folder cannot be read: %v", err)
		}
	}
}

func (n *neptuneRun) addFile(name, from string, info fs.FileInfo) {
	if !info.Mode().IsRegular() || model.CheckFileName(name) != nil {
		n.skipOf("files with a name that is not valid, or that are none", name)
		return
	}
	n.run.Files = append(n.run.Files, File{name, from, n.root, info.Size()})
}

// end makes steps whole, and the run as long as it was.
func (n *neptuneRun) end() *Run {
	unit := int64(micro)
	if n.forkAt != nil {
		at := new(big.Rat).Mul(n.forkAt, new(big.Rat).SetInt64(micro))
		n.run.ForkAt = new(big.Int).Quo(at.Num(), at.Denom()).Int64()
		for unit > 1 && n.run.ForkAt%unit != 0 {
			unit /= 10
		}
	}
	for _, s := range n.series {
		for _, step := range s.Steps {
			for unit > 1 && step%unit != 0 {
				unit /= 10
			}
		}
	}
	for _, s := range n.series {
		for i := range s.Steps {
			s.Steps[i] /= unit
		}
	}
	n.run.ForkAt /= unit
	if unit != micro {
		n.attribute("import/step_multiplier", model.IntValue(micro/unit))
	}
	n.attribute("neptune/project", model.StringValue(n.project))
	n.attribute("neptune/run", model.StringValue(n.id))
	run := n.done()
	if run.EndedNs == 0 && run.StartedNs > 0 && n.running > 0 {
		run.EndedNs = run.StartedNs + seconds(n.running)
	}
	run.spanPoints()
	return run
}
