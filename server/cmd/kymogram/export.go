package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// exportPage is how many points one request brings: about 6 MB.
const exportPage = 100_000

// export is the work of `kymogram export`.
type export struct {
	connection
	format, metric, output, attempt string
	inherited                       bool
}

func exportCommand(io stdio) *cobra.Command {
	e := &export{}
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write the points of a run as JSON lines, CSV or Parquet",
		Long: `Write the points of a run, series by series in the order of metric, scale and
labels, and each by its step, else by time. Integers are exact; NaN, Infinity
and -Infinity are strings in JSON lines. In CSV a text that a spreadsheet would
take for a formula gets an apostrophe in front. With --include-inherited the
points of a fork's ancestors are among them, under the ids of their own runs.`,
		Example: `  kymogram export default/default/brave-otter-7 > points.jsonl
  kymogram export 01ARZ3NDEKTSV4RRFFQ69G5FAV --format parquet -o points.parquet
  kymogram export lab/digits/lr-3 --metric '^eval/' --format csv -o eval.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.check(io); err != nil {
				return err
			}
			return e.run(cmd.Context(), io, args[0])
		},
	}
	e.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&e.format, "format", "jsonl", "jsonl (one object a point), csv or parquet")
	flags.StringVar(&e.metric, "metric", "", "only metrics that match this regular expression (RE2, unanchored)")
	flags.StringVarP(&e.output, "output", "o", "", "write this file (default the standard output)")
	flags.StringVar(&e.attempt, "attempt", "", "the number of an attempt, or all (default the curve)")
	flags.BoolVar(&e.inherited, "include-inherited", false, inheritedHelp)
	flags.Lookup("json").Usage = "the same as --format jsonl"
	return cmd
}

func (e *export) check(io stdio) error {
	switch {
	case e.format != "jsonl" && e.format != "csv" && e.format != "parquet":
		return usagef("--format is %q, it must be jsonl, csv or parquet", e.format)
	case e.json && e.format != "jsonl":
		return usagef("--json is --format jsonl, not %s", e.format)
	case e.inherited && e.attempt != "":
		return usagef("an attempt inherits nothing: give --attempt or --include-inherited")
	case e.format == "parquet" && e.output == "" && isTerminal(io.out):
		return usagef("Parquet is no text for a terminal: give -o FILE")
	}
	return nil
}

func (e *export) run(ctx context.Context, io stdio, ref string) error {
	server, err := e.dial(io)
	if err != nil {
		return err
	}
	id, err := server.runID(ctx, ref)
	if err != nil {
		return err
	}
	series, err := server.allSeries(ctx, id, e.selection())
	if err != nil {
		return err
	}
	if e.output == "" {
		return e.write(ctx, io, server, id, series, io.out)
	}
	return writeFile(e.output, func(f *os.File) error { return e.write(ctx, io, server, id, series, f) })
}

// writeFile makes a file that is there whole or not at all.
func writeFile(path string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // fails once it has its name
	if err := errors.Join(write(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// selection is what the list of series and their points are asked with.
func (e *export) selection() url.Values {
	query := url.Values{}
	if e.metric != "" {
		query.Set("q", e.metric)
	}
	if e.inherited {
		query.Set("include_inherited", "1")
	}
	return query
}

// allSeries lists the series that a query selects.
func (c *client) allSeries(ctx context.Context, id string, query url.Values) ([]seriesLine, error) {
	list, err := c.list(ctx, runPath(id, "series"), "series", query, 0)
	if err != nil {
		return nil, err
	}
	out := make([]seriesLine, len(list.items))
	for i, raw := range list.items {
		if err := json.Unmarshal(raw, &out[i]); err != nil {
			return nil, fmt.Errorf("read series: %w", err)
		}
	}
	return out, nil
}

// pointSink takes the points of an export in one format.
type pointSink interface {
	// batch writes rows of one series; the columns are those of GET …/points.
	batch(s *seriesLine, rows arrow.RecordBatch) error
	close() error
}

func (e *export) write(ctx context.Context, std stdio, server *client, id string, series []seriesLine, w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<20)
	sink, err := e.sink(out, id, series)
	if err != nil {
		return err
	}
	bar := progress(std, series)
	for i := range series {
		if err := server.eachBatch(ctx, id, &series[i], e.part(), func(rows arrow.RecordBatch) error {
			_ = bar.Add64(rows.NumRows())
			return sink.batch(&series[i], rows)
		}); err != nil {
			return fmt.Errorf("export %s: %w", series[i].Metric, err)
		}
	}
	_ = bar.Finish()
	if err := errors.Join(sink.close(), out.Flush()); err != nil {
		return fmt.Errorf("write points: %w", err)
	}
	return nil
}

// part is what the points of a series are asked with.
func (e *export) part() url.Values {
	query := e.selection()
	query.Del("q")
	if e.attempt != "" {
		query.Set("attempt", e.attempt)
	}
	return query
}

func (e *export) sink(w *bufio.Writer, id string, series []seriesLine) (pointSink, error) {
	switch e.format {
	case "csv":
		return newCSVSink(w, id, series)
	case "parquet":
		return newParquetSink(w, id, series)
	}
	return &jsonlSink{w: w, run: id}, nil
}

// progress shows a bar to a person, and nothing to a pipe.
func progress(std stdio, series []seriesLine) *progressbar.ProgressBar {
	if !isTerminal(std.err) {
		return progressbar.DefaultSilent(0)
	}
	total := int64(0)
	for _, s := range series {
		total += int64(s.Count)
	}
	return progressbar.NewOptions64(max(total, 1),
		progressbar.OptionSetWriter(std.err), progressbar.OptionSetDescription("points"), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionFullWidth())
}

// eachBatch reads all points of a series as Arrow, which keeps every bit.
func (c *client) eachBatch(ctx context.Context, id string, s *seriesLine, query url.Values, use func(arrow.RecordBatch) error) error {
	for name, value := range map[string]string{"metric": s.Metric, "scale": s.Scale, "format": "arrow", "limit": strconv.Itoa(exportPage)} {
		query.Set(name, value)
	}
	for name, value := range s.Labels {
		query.Set("label."+name, value)
	}
	for {
		next, err := c.arrowPage(ctx, runPath(id, "points"), query, use)
		if err != nil || next == "" {
			return err
		}
		query.Set("cursor", next)
	}
}

func (c *client) arrowPage(ctx context.Context, path string, query url.Values, use func(arrow.RecordBatch) error) (next string, err error) {
	response, err := c.send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	reader, err := ipc.NewReader(response.Body)
	if err != nil {
		return "", fmt.Errorf("read points: %w", err)
	}
	defer reader.Release()
	for reader.Next() {
		if err := use(reader.RecordBatch()); err != nil {
			return "", err
		}
	}
	if err := reader.Err(); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read points: %w", err)
	}
	return response.Header.Get(httpapi.NextHeader), nil
}
