package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/kymogram/kymogram/internal/model"
)

const parquetHelp = `Read Parquet files. The names of columns say what a row is, as for import csv
(see kymogram import csv --help), and for the files of kymogram export --format parquet.
Lists and structures become JSON texts of their values. A file may have a million
points, and 16 more for each of its bytes.`

// parquetRows is how many levels of a column are read at once.
const parquetRows = 1024

func findParquet(ctx context.Context, path string, opts Options) ([]Found, error) {
	info, err := regular(path)
	if err != nil {
		return nil, fmt.Errorf("look for a Parquet file: %w", err)
	}
	if info.IsDir() {
		return nil, model.Errorf(model.CodeInvalid, "%s is a folder", path).WithHint("give Parquet files, for example %s", filepath.Join(path, "*.parquet"))
	}
	return findTable(ctx, path, info.Size(), opts, func(ctx context.Context, headerOnly bool) (*sheet, error) {
		return parquetSheet(ctx, path, info.ModTime(), opts, headerOnly)
	})
}

func parquetSheet(ctx context.Context, path string, written time.Time, opts Options, headerOnly bool) (s *sheet, err error) {
	err = opts.parquet(ctx, path, func(p *parquetFile) error {
		header, values := exported(p.names())
		if s, err = newSheet(header, filepath.Base(path), written, opts.CSV); err != nil || headerOnly {
			return err
		}
		s.texts, s.points = newAllowance(p.MetaData().GetSourceFileSize()), newPoints(p.MetaData().GetSourceFileSize())
		row := make([]string, len(header))
		err := p.rows(ctx, func(cells []any) error {
			s.line++
			clear(row)
			for i, cell := range cells {
				if text := cellText(cell); text != "" {
					row[values[i]] = text
				}
			}
			s.row(row)
			return s.points.check()
		})
		if err != nil {
			return err
		}
		return s.finish()
	})
	return s, err
}

// exported joins the columns of values that `kymogram export` writes, one a type, in the
// first; of other files each column has its place.
func exported(names []string) (header []string, place []int) {
	value := slices.Index(names, "value")
	joined := value >= 0 && slices.Contains(names, "metric") && slices.Contains(names, "kind")
	for _, name := range names {
		if joined && (name == "value_int64" || name == "value_text" || name == "value_document") {
			place = append(place, value)
			continue
		}
		place = append(place, len(header))
		header = append(header, name)
	}
	return header, place
}

// parquetFile is an open file whose columns are lists of leaves: one of a plain column.
type parquetFile struct {
	*file.Reader
	columns []parquetColumn
	room    *bounds
}

// parquetColumn is a column of the table and its leaves.
type parquetColumn struct {
	name   string
	leaves []int
	nested bool
}

// parquet opens a file. What damage makes the library do ends here, as an error.
func (o Options) parquet(ctx context.Context, path string, use func(*parquetFile) error) (err error) {
	f, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	defer func() {
		if problem := recover(); problem != nil {
			err = model.Errorf(model.CodeInvalid, "the Parquet file is damaged: %v", problem)
		}
	}()
	if err := checkParquet(f); err != nil {
		return err
	}
	room := newBounds()
	props := parquet.NewReaderProperties(room)
	props.BufferedStreamEnabled = true
	r, err := file.NewParquetReader(f, file.WithReadProps(props))
	if err != nil {
		return model.Errorf(model.CodeInvalid, "it is no Parquet file that can be read: %v", err)
	}
	if err := checkPages(f, r); err != nil {
		return err
	}
	p := &parquetFile{Reader: r, room: room}
	for i := range r.MetaData().Schema.NumColumns() {
		leaf := r.MetaData().Schema.Column(i)
		name, _, nested := strings.Cut(leaf.Path(), ".")
		if root := leaf.ColumnPath(); len(root) > 0 {
			name, nested = root[0], len(root) > 1
		}
		if leaf.MaxRepetitionLevel() > 1 {
			return model.Errorf(model.CodeInvalid, "the column %s holds lists of lists, which are not read", name)
		}
		if n := len(p.columns); n > 0 && nested && p.columns[n-1].name == name {
			p.columns[n-1].leaves = append(p.columns[n-1].leaves, i)
			continue
		}
		p.columns = append(p.columns, parquetColumn{name, []int{i}, nested})
	}
	return use(p)
}

func (p *parquetFile) names() []string {
	names := make([]string, len(p.columns))
	for i, c := range p.columns {
		names[i] = c.name
	}
	return names
}

// rows gives each row: a cell is nil, a bool, int64, float64, string, time.Time or
// *big.Rat; of a column of lists and structures a map of lists by the paths of its leaves.
func (p *parquetFile) rows(ctx context.Context, row func(cells []any) error) error {
	cells := make([]any, len(p.columns))
	for g := range p.NumRowGroups() {
		group := p.RowGroup(g)
		p.room.renew()
		leaves := make([]*leafReader, p.MetaData().Schema.NumColumns())
		for i := range leaves {
			reader, err := group.Column(i)
			if err != nil {
				return model.Errorf(model.CodeInvalid, "the Parquet file is damaged: %v", err)
			}
			leaves[i] = newLeafReader(reader)
		}
		for n := range group.NumRows() {
			if n%parquetRows == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			for i, c := range p.columns {
				cell, err := c.cell(leaves)
				if err != nil {
					return model.Errorf(model.CodeInvalid, "row %d of part %d, column %s: the Parquet file is damaged: %v", n+1, g+1, c.name, err)
				}
				cells[i] = cell
			}
			if err := row(cells); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *parquetColumn) cell(leaves []*leafReader) (any, error) {
	if !c.nested {
		values, err := leaves[c.leaves[0]].next()
		if err != nil || len(values) == 0 {
			return nil, err
		}
		if leaves[c.leaves[0]].list {
			return map[string][]any{"": values}, nil
		}
		return values[0], nil
	}
	var out map[string][]any
	for _, i := range c.leaves {
		values, err := leaves[i].next()
		if err != nil {
			return nil, err
		}
		if len(values) > 0 {
			if out == nil {
				out = map[string][]any{}
			}
			path := strings.TrimPrefix(leaves[i].path, c.name+".")
			path = strings.TrimSuffix(strings.TrimSuffix(path, ".list.element"), ".list.item")
			if path == "list.element" || path == "list.item" {
				path = ""
			}
			out[path] = slices.Clone(values)
		}
	}
	if out == nil {
		return nil, nil
	}
	return out, nil
}

// leafReader gives the values of one leaf, row by row.
type leafReader struct {
	path      string
	list      bool
	depth     int16 // the level of a value that is there
	read      func() (levels int64, err error)
	value     func(i int) any
	defs      []int16
	reps      []int16
	at, n     int
	taken     int // values
	out       []any
	exhausted bool
}

// chunk is a typed reader of the library.
type chunk[T any] interface {
	HasNext() bool
	ReadBatchInPage(batchSize int64, values []T, defLvls, repLvls []int16) (total int64, valuesRead int, err error)
}

var errFewValues = errors.New("a page ends before its last value")

func batches[T any](l *leafReader, from chunk[T], to func(T) any) {
	values := make([]T, parquetRows)
	l.read = func() (int64, error) {
		// ReadBatch would try for ever to read what a page says that it has.
		n, _, err := from.ReadBatchInPage(parquetRows, values, l.defs, l.reps)
		if n == 0 && err == nil && from.HasNext() {
			err = errFewValues
		}
		return n, err
	}
	l.value = func(i int) any { return to(values[i]) }
}

func newLeafReader(reader file.ColumnChunkReader) *leafReader {
	leaf := reader.Descriptor()
	l := &leafReader{
		path: leaf.Path(), depth: leaf.MaxDefinitionLevel(), list: leaf.MaxRepetitionLevel() > 0,
		defs: make([]int16, parquetRows), reps: make([]int16, parquetRows),
	}
	whole, bytes := wholeOf(leaf), bytesOf(leaf)
	switch from := reader.(type) {
	case *file.BooleanColumnChunkReader:
		batches(l, from, func(v bool) any { return v })
	case *file.Int32ColumnChunkReader:
		batches(l, from, func(v int32) any { return whole(int64(v)) })
	case *file.Int64ColumnChunkReader:
		batches(l, from, whole)
	case *file.Int96ColumnChunkReader:
		batches(l, from, func(v parquet.Int96) any { return v.ToTime() })
	case *file.Float32ColumnChunkReader:
		batches(l, from, func(v float32) any { return float64(v) })
	case *file.Float64ColumnChunkReader:
		batches(l, from, func(v float64) any { return v })
	case *file.ByteArrayColumnChunkReader:
		batches(l, from, func(v parquet.ByteArray) any { return bytes(v) })
	case *file.FixedLenByteArrayColumnChunkReader:
		batches(l, from, func(v parquet.FixedLenByteArray) any { return bytes(v) })
	}
	return l
}

var errFewRows = errors.New("it ends before its last row")

// next gives the values of the next row, which the following call overwrites.
func (l *leafReader) next() ([]any, error) {
	l.out = l.out[:0]
	for first := true; ; first = false {
		if l.at == l.n && !l.exhausted {
			n, err := l.read()
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			l.at, l.n, l.taken, l.exhausted = 0, int(n), 0, n == 0
		}
		if l.exhausted {
			if first {
				return nil, errFewRows
			}
			return l.out, nil
		}
		if !first && (!l.list || l.reps[l.at] == 0) {
			return l.out, nil
		}
		if l.depth == 0 || l.defs[l.at] == l.depth {
			if len(l.out) > maxListed {
				return nil, fmt.Errorf("a list has more than %d values", maxListed)
			}
			l.out = append(l.out, l.value(l.taken))
			l.taken++
		}
		l.at++
		if !l.list {
			return l.out, nil
		}
	}
}

// maxListed bounds the values of a list.
const maxListed = 1 << 17

// wholeOf reads integers of a column: numbers, dates, times and decimals.
func wholeOf(leaf *schema.Column) func(int64) any {
	switch t := leaf.LogicalType().(type) {
	case schema.TimestampLogicalType:
		return inUnit(t.TimeUnit())
	case *schema.TimestampLogicalType:
		return inUnit(t.TimeUnit())
	case schema.DateLogicalType, *schema.DateLogicalType:
		return func(v int64) any { return time.Unix(v*86400, 0).UTC() }
	case schema.DecimalLogicalType:
		return func(v int64) any { return decimal(big.NewInt(v), t.Scale()) }
	case *schema.DecimalLogicalType:
		return func(v int64) any { return decimal(big.NewInt(v), t.Scale()) }
	case schema.IntLogicalType:
		return inWidth(t.IsSigned(), t.BitWidth())
	case *schema.IntLogicalType:
		return inWidth(t.IsSigned(), t.BitWidth())
	}
	return func(v int64) any { return v }
}

// inWidth reads integers of a sign and a width: those without a sign lie in the file as if they
// had one.
func inWidth(signed bool, bits int8) func(int64) any {
	switch {
	case signed:
	case bits == 64:
		return func(v int64) any {
			if v >= 0 {
				return v
			}
			return new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(v)))
		}
	default: // in an int32
		return func(v int64) any { return int64(uint32(v)) }
	}
	return func(v int64) any { return v }
}

func inUnit(unit schema.TimeUnitType) func(int64) any {
	switch unit {
	case schema.TimeUnitMillis:
		return func(v int64) any { return time.UnixMilli(v).UTC() }
	case schema.TimeUnitMicros:
		return func(v int64) any { return time.UnixMicro(v).UTC() }
	}
	return func(v int64) any { return time.Unix(0, v).UTC() }
}

// bytesOf reads texts of a column, decimals as big-endian two's complement, and numbers of 16 bits.
func bytesOf(leaf *schema.Column) func([]byte) any {
	scale, isDecimal := int32(0), false
	switch t := leaf.LogicalType().(type) {
	case schema.Float16LogicalType, *schema.Float16LogicalType:
		return func(v []byte) any {
			if len(v) != 2 {
				return nil
			}
			return float64(float16.FromLEBytes(v).Float32())
		}
	case schema.DecimalLogicalType:
		scale, isDecimal = t.Scale(), true
	case *schema.DecimalLogicalType:
		scale, isDecimal = t.Scale(), true
	}
	if !isDecimal {
		return func(v []byte) any { return string(v) }
	}
	return func(v []byte) any {
		n := new(big.Int).SetBytes(v)
		if len(v) > 0 && v[0] >= 0x80 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v))))
		}
		return decimal(n, scale)
	}
}

func decimal(n *big.Int, scale int32) any {
	if scale < 0 || scale > 76 {
		return new(big.Rat).SetInt(n)
	}
	return new(big.Rat).SetFrac(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
}

// cellText is a cell as CSV would have it.
func cellText(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case string:
		return v
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case *big.Rat:
		if v.IsInt() {
			return v.Num().String()
		}
		text, _ := v.Float64()
		return strconv.FormatFloat(text, 'g', -1, 64)
	case map[string][]any:
		return listText(v)
	}
	return ""
}

// listText is a cell of lists or a structure as JSON.
func listText(lists map[string][]any) string {
	texts := map[string][]string{}
	for path, list := range lists {
		for _, one := range list {
			texts[path] = append(texts[path], cellText(one))
		}
	}
	var doc any = texts
	if only, ok := texts[""]; ok && len(texts) == 1 {
		doc = only
	}
	text, _ := json.Marshal(doc) // texts
	return string(text)
}

// maxParquet bounds the memory that a part of a file takes while it is read: pages and
// dictionaries.
const maxParquet = 1 << 30

// bounds is memory that ends: a damaged length must not take all there is. The library gives
// some of it back from a finalizer, and never what it read the columns of a part with.
type bounds struct {
	memory.GoAllocator
	left atomic.Int64
}

func newBounds() *bounds {
	b := new(bounds)
	b.renew()
	return b
}

// renew forgets what was taken: nothing holds it any more.
func (b *bounds) renew() { b.left.Store(maxParquet) }

func (b *bounds) Allocate(size int) []byte {
	b.take(size)
	return b.GoAllocator.Allocate(size)
}

func (b *bounds) Reallocate(size int, old []byte) []byte {
	b.take(size - len(old))
	return b.GoAllocator.Reallocate(size, old)
}

// Free gives memory back.
func (b *bounds) Free(old []byte) {
	if b.left.Add(int64(len(old))) > maxParquet { // of an earlier part
		b.renew()
	}
}

func (b *bounds) take(n int) {
	if b.left.Add(int64(-n)) < 0 {
		panic(fmt.Sprintf("it needs more than %d MiB of memory at once", maxParquet>>20))
	}
}
