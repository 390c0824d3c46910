// Package importer reads what other trackers left on disk: TensorBoard's event
// files, offline runs of W&B, MLflow's stores, Neptune's exports, CSV and Parquet.
// It turns them into runs in memory and writes nothing; `kymogram import` delivers them. Damaged parts
// are skipped, counted and named, and the rest is read.
//
// In: paths; out: runs with their points, attributes and times, one after the
// other. A run of the same content has the same digest, so a repeated import knows
// what it has. Start reading at [Sources]; builder.go is what all sources write
// into, and each source has a file of its name.
package importer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// maxStep is the largest step that a server takes.
const maxStep = 1 << 62

// maxProject bounds the name of a project.
const maxProject = 128

// Options say how sources are read.
type Options struct {
	CSV   CSVOptions
	Files string // the folder with Neptune's files, "" where neptune-exporter puts it
	// Progress is told how many bytes of a source were read; nil for nobody.
	Progress func(bytes int)
}

// reading is a file that tells how far it is read, and ends with ctx.
type reading struct {
	*os.File
	ctx   context.Context //nolint:containedctx // it lives as long as the reading
	tell  func(bytes int)
	bytes int64 // read so far
}

func (o Options) open(ctx context.Context, path string) (*reading, error) {
	if _, err := regular(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &reading{f, ctx, o.Progress, 0}, nil
}

func (r *reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.File.Read(p)
	r.took(n)
	return n, err
}

// took counts bytes that were read.
func (r *reading) took(n int) {
	r.bytes += int64(n)
	if r.tell != nil {
		r.tell(n)
	}
}

// ReadAt reads like Read.
func (r *reading) ReadAt(p []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.File.ReadAt(p, at)
	r.took(n)
	return n, err
}

// CleanProject makes the name of a project of what a tracker called it.
func CleanProject(name string) string {
	name = strings.TrimLeft(strings.Map(func(r rune) rune {
		if r < 0x80 && model.CheckPlace("a", "a"+string(r)) == nil {
			return r
		}
		return '-'
	}, name), "-._")
	return model.CutBytes(name, maxProject)
}

func (o Options) readAll(ctx context.Context, path string) ([]byte, error) {
	f, err := o.open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// sizeOf adds up files; one that is gone has none.
func sizeOf(paths []string) (bytes int64) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Found is a run that a source holds. Key names it within its source and stays
// the same from one import to the next.
type Found struct {
	Key, Name string
	// ByKey: the tracker made the key, so a run with it is the same one whatever its name is.
	ByKey   bool
	Short   string // what makes the name another than that of other runs, "" nothing
	Also    string // the name that an earlier import may have chosen
	Project string // where the tracker kept it, "" where it has no such thing
	Left    string // why it is not for an import, else ""
	Bytes   int64  // to read; 0: not known
	Read    func(ctx context.Context) (*Run, error)
}

// Source finds the runs of one tracker below a path.
type Source struct {
	Name  string // as on the command line
	About string // what it reads, in a line
	Help  string // and how, where that is not plain
	Find  func(ctx context.Context, path string, opts Options) ([]Found, error)
}

// Sources lists what can be imported.
func Sources() []Source {
	return []Source{
		{Name: "tensorboard", About: "TensorBoard's event files; every folder of them is a run", Find: findTensorBoard},
		{Name: "wandb-offline", About: "run-ID.wandb files of W&B, offline or not", Find: findWandb},
		{Name: "mlflow", About: "an MLflow file store (mlruns) or SQLite store (mlflow.db)", Find: findMLflow},
		{Name: "csv", About: "CSV files of loggers, and exports of W&B, MLflow, Neptune and Kymogram", Help: csvHelp, Find: findCSV},
		{Name: "parquet", About: "Parquet files: tables as import csv reads them, and exports of Kymogram", Help: parquetHelp, Find: findParquet},
		{Name: "neptune", About: "what neptune-exporter wrote: Parquet files and the files of runs", Help: neptuneHelp, Find: findNeptune},
	}
}

// Run is one run as its tracker kept it.
type Run struct {
	DisplayName, Experiment, Description string
	Tags                                 []string
	Failed                               bool
	StartedNs, EndedNs                   int64 // 0: unknown
	Attributes                           map[string]*model.Value
	Series                               []*Series // by metric, scale and labels
	Files                                []File
	ForkFrom                             string // the name of the run that this one goes on from
	ForkAt                               int64  // the last step that it has of that run
	Skipped                              map[string]uint64
	Damage                               []Damage
}

// File is a file of a run: its name there, and where it lies below a folder.
type File struct {
	Name, Path string
	Root       *os.Root
	Size       int64
}

// Series is one series of a run, in the order in which it was logged. Numbers
// lie in Floats or Ints, texts and documents in Docs.
type Series struct {
	Key    model.SeriesKey
	Kind   model.Kind
	Steps  []int64
	TimeNs []int64
	Floats []float64
	Ints   []int64
	Docs   [][]byte
}

// Damage is a part of a file that could not be read.
type Damage struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// Points counts the points of all series.
func (r *Run) Points() uint64 {
	n := uint64(0)
	for _, s := range r.Series {
		n += uint64(len(s.Steps))
	}
	return n
}

// Digest names the content: equal runs have equal digests, whatever their files
// look like.
func (r *Run) Digest() string {
	h := sha256.New()
	head, _ := json.Marshal([]any{r.DisplayName, r.Experiment, r.Description, r.Tags, r.Failed, r.StartedNs, r.EndedNs}) // plain values
	frame(h, head)
	for _, path := range slices.Sorted(maps.Keys(r.Attributes)) {
		value, _ := json.Marshal(r.Attributes[path]) // of a known type
		frame(h, []byte(path))
		frame(h, value)
	}
	for _, s := range r.Series {
		s.digest(h)
	}
	if r.ForkFrom != "" {
		frame(h, []byte(r.ForkFrom))
		frame(h, strconv.AppendInt(nil, r.ForkAt, 10))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Series) digest(w hash.Hash) {
	frame(w, []byte(s.Key.String()))
	numbers := append([]int64{int64(s.Kind), int64(len(s.Steps))}, s.Steps...)
	numbers = append(append(numbers, s.TimeNs...), s.Ints...)
	for _, f := range s.Floats {
		numbers = append(numbers, int64(math.Float64bits(f)))
	}
	_ = binary.Write(w, binary.LittleEndian, numbers) // a hash never fails
	for _, doc := range s.Docs {
		frame(w, doc)
	}
}

// frame writes a length and bytes, so that no two lists of parts look alike.
func frame(w io.Writer, b []byte) {
	_ = binary.Write(w, binary.LittleEndian, uint64(len(b)))
	_, _ = w.Write(b)
}
