package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/table"
)

// exportPage is how many points one request brings: about 6 MB.
const exportPage = 100_000

// The formats of an export.
const (
	JSONL   = "jsonl"
	CSV     = "csv"
	Parquet = "parquet"
)

// Export is which points of a run to write, and how.
type Export struct {
	Server    *remote.Client
	Run       string // its id
	Format    string
	Metric    string // a regular expression; empty for all
	Attempt   string // empty for the curve
	Inherited bool   // also what a fork has from its ancestors
}

// Check refuses what does not fit together.
func (e *Export) Check() error {
	switch {
	case e.Format != JSONL && e.Format != CSV && e.Format != Parquet:
		return fmt.Errorf("--format is %q, it must be jsonl, csv or parquet", e.Format)
	case e.Inherited && e.Attempt != "":
		return errors.New("an attempt inherits nothing: give --attempt or --include-inherited")
	}
	return nil
}

// Save writes all points to a new file, or to out where path is empty. Its progress goes
// to shown.
func (e *Export) Save(ctx context.Context, path string, out, shown io.Writer) error {
	series, err := e.Series(ctx)
	if err != nil {
		return err
	}
	if len(series) == 0 && e.Metric != "" {
		fmt.Fprintf(shown, "no metric of the run matches --metric %s; `kymogram series list %s` lists them\n", table.Printable(e.Metric), e.Run)
	}
	total := int64(0)
	for _, s := range series {
		total += int64(s.Count)
	}
	write := func(w io.Writer) error {
		bar := progress.Wide(shown, total)
		defer bar.End()
		return e.Write(ctx, w, series, bar.Done)
	}
	if path == "" {
		return write(out)
	}
	return WriteFile(path, write)
}

// Series lists what the export will hold.
func (e *Export) Series(ctx context.Context) ([]*read.Series, error) {
	var options []read.Option
	if e.Inherited {
		options = append(options, read.IncludeInherited())
	}
	var out []*read.Series
	for s, err := range read.Over(e.Server).ByID(e.Run).Series(ctx, e.Metric, options...) {
		var refused *model.Error
		if errors.As(err, &refused) && strings.HasPrefix(refused.Message, "q is not a regular") {
			named := *refused // by the flag, not by the parameter of HTTP
			named.Message = "--metric" + strings.TrimPrefix(refused.Message, "q")
			named.Hint = "--metric" + strings.TrimPrefix(refused.Hint, "q")
			return nil, &named
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// sink takes the points of an export in one format.
type sink interface {
	// batch writes rows of one series; the columns are those of GET …/points.
	batch(s *read.Series, rows arrow.RecordBatch) error
	close() error
}

func (e *Export) sink(w *bufio.Writer, series []*read.Series) (sink, error) {
	switch e.Format {
	case CSV:
		return newCSVSink(w, e.Run, series)
	case Parquet:
		return newParquetSink(w, e.Run, series)
	}
	return &jsonlSink{w: w, run: e.Run}, nil
}

// Write writes the points of series, and calls done with how many came.
func (e *Export) Write(ctx context.Context, w io.Writer, series []*read.Series, done func(points int64)) error {
	out := bufio.NewWriterSize(w, 1<<20)
	sink, err := e.sink(out, series)
	if err != nil {
		return err
	}
	for _, s := range series {
		if err := e.each(ctx, s, func(rows arrow.RecordBatch) error {
			done(rows.NumRows())
			return sink.batch(s, rows)
		}); err != nil {
			return fmt.Errorf("export %s: %w", s.Metric, err)
		}
	}
	if err := errors.Join(sink.close(), out.Flush()); err != nil {
		return fmt.Errorf("write points: %w", err)
	}
	return nil
}

// each reads all points of a series as Arrow, which keeps every bit.
func (e *Export) each(ctx context.Context, s *read.Series, use func(arrow.RecordBatch) error) error {
	var options []read.Option
	if e.Attempt != "" {
		options = append(options, read.Attempt(e.Attempt))
	}
	for batch, err := range record.Batches(s.Arrow(ctx, exportPage, options...)) {
		if err != nil {
			return err
		}
		if err := use(batch); err != nil {
			return err
		}
	}
	return nil
}
