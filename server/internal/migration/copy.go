package migration

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

// copying is one run at work.
type copying struct {
	*Work
	pair    Pair
	foreign *foreignRun // nil: it is not there
	own     *ownRun     // nil: it is not there yet
	id      string      // of the run in Kymogram
	line    Run
	counted int64 // rows that the progress knows
}

// copy copies what the destination lacks of a run. The digest is written last.
func (c *copying) copy(ctx context.Context) error {
	if c.foreign == nil {
		return model.Errorf(model.CodeNotFound, "there is no run %s at the source", c.line.Key)
	}
	if err := model.CheckRunName(c.foreign.Name); err != nil {
		return err
	}
	digest := c.foreign.digest()
	c.line.State, c.line.Rows = transfer.Imported, int64(c.foreign.Rows)
	changed := true
	if c.own != nil {
		if c.own.Imported == nil || c.own.Imported.Key != c.line.Key {
			from := "was logged there"
			if c.own.Imported != nil {
				from = "comes from " + c.own.Imported.Key
			}
			return model.Errorf(model.CodeRunExists, "the run %s is there and does not come from this source: it %s", c.line.Run, model.Clip(from)).
				WithHint("import into another project with --to")
		}
		c.id, c.line.State = c.own.ID, transfer.Updated
		if changed = c.own.Imported.Digest != digest; !changed {
			c.line.State = transfer.Unchanged
		}
	}
	if c.DryRun {
		return nil
	}
	if changed {
		if err := c.begin(ctx); err != nil {
			return err
		}
		if err := c.content(ctx); err != nil {
			return err
		}
	}
	if c.Files {
		if err := c.files(ctx); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return c.end(ctx, digest)
}

// begin makes the run, or opens it again. Without a digest it is not whole.
func (c *copying) begin(ctx context.Context) error {
	r := c.foreign
	if c.own != nil {
		if err := c.goBack(ctx); err != nil {
			return err
		}
	}
	input := map[string]any{
		"displayName": r.DisplayName, "notes": r.notes(), "tags": tags(r.Tags), "groupName": r.Group, "jobType": r.JobType,
		"sweep": r.SweepName, "commit": r.Commit, "imported": c.imported("", ""),
	}
	if r.Config != "" {
		input["config"] = r.Config
	}
	if c.id != "" {
		input["id"] = c.id
	} else {
		input["entityName"], input["modelName"], input["name"] = c.pair.To.Entity, c.pair.To.Project, r.Name
	}
	var err error
	c.id, err = c.Target.upsert(ctx, input)
	return err
}

func tags(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}

// imported is what an upsert says of an import, beside W&B's own fields.
func (c *copying) imported(digest, state string) map[string]any {
	return map[string]any{
		"key": c.line.Key, "digest": digest, "state": state, "user": c.foreign.username(),
		"createdAt": c.foreign.CreatedAt, "endedAt": c.foreign.HeartbeatAt,
	}
}

// goBack follows a source that was rewound to a step since it was copied.
func (c *copying) goBack(ctx context.Context) error {
	step, rewound := c.foreign.branch()
	if !rewound {
		return nil
	}
	there, err := askRun[struct {
		Config string `json:"config"`
	}](ctx, c.Target.Client, "RunConfig($project: String!, $entity: String!, $run: String!)", "config", c.pair.To, c.foreign.Name, nil, maxAnswer)
	if err != nil {
		return err
	}
	before := foreignRun{Name: c.foreign.Name, Config: there.Config}
	if was, known := before.branch(); known && was == step {
		return nil
	}
	return c.Target.rewind(ctx, c.pair.To, c.foreign.Name, step)
}

// content copies rows and system events.
func (c *copying) content(ctx context.Context) error {
	from, err := extentOf(ctx, c.Source.Client, c.pair.From, c.foreign.Name)
	if err != nil {
		return err
	}
	to := &extent{}
	if c.own != nil {
		if to, err = extentOf(ctx, c.Target.Client, c.pair.To, c.foreign.Name); err != nil {
			return err
		}
	}
	if err := c.history(ctx, from, to); err != nil {
		return err
	}
	return c.events(ctx, from, to)
}

// end says what the run's summary is, how it ended, and that it is whole.
func (c *copying) end(ctx context.Context, digest string) error {
	input := map[string]any{"id": c.id, "imported": c.imported(digest, c.foreign.State)}
	if c.foreign.Summary != "" {
		input["summaryMetrics"] = c.foreign.Summary
	}
	_, err := c.Target.upsert(ctx, input)
	return err
}

// How a history is read: a page has pageSteps steps, so that a server that gives at most so
// many rows leaves none out, and more where few of them have rows.
const (
	pageSteps    = 1000
	widest       = 1 << 40
	pageBytes    = 16 << 20
	leastSamples = pageSteps
	batchBytes   = 4 << 20
	batchRows    = 20_000
)

// history copies the rows from the last step on that the destination has. Rows that are
// there are duplicates to it. Where fewer rows arrive than the source counts, all are read
// once more, and each page is compared with its halves.
func (c *copying) history(ctx context.Context, from, to *extent) error {
	first := int64(0)
	if last, ok := to.last(); ok && to.Rows > 0 {
		first = last
		c.count(int64(to.Rows), 0)
	}
	stop := stop(from)
	if err := c.rows(ctx, first, stop, false); err != nil {
		return err
	}
	there, err := extentOf(ctx, c.Target.Client, c.pair.To, c.foreign.Name)
	if err != nil || there.Rows >= from.Rows {
		return err
	}
	if err := c.rows(ctx, 0, stop, true); err != nil {
		return err
	}
	if there, err = extentOf(ctx, c.Target.Client, c.pair.To, c.foreign.Name); err != nil || there.Rows >= from.Rows {
		return err
	}
	c.line.skip("rows that the source counts and does not give", int64(from.Rows-there.Rows))
	return nil
}

// stop is the step after the last one of the source, which need not say it.
func stop(from *extent) int64 {
	if last, ok := from.last(); ok {
		return last + 1
	}
	if from.Rows == 0 {
		return 0
	}
	return widest
}

// page is some rows, and where they end.
type page struct {
	lines []string
	bytes int
}

// rows copies the rows of steps: one part reads ahead while the other writes.
func (c *copying) rows(ctx context.Context, from, to int64, strict bool) error {
	group, ctx := errgroup.WithContext(ctx)
	pages := make(chan page, 1)
	group.Go(func() error {
		defer close(pages)
		return c.read(ctx, from, to, strict, pages)
	})
	group.Go(func() error { return c.write(ctx, pages) })
	return group.Wait()
}

// read gives all rows from one step to before another, in pages.
func (c *copying) read(ctx context.Context, from, to int64, strict bool, pages chan<- page) error {
	for at, width, most := from, int64(pageSteps), int64(pageBytes); at < to; {
		end := to
		if to-at > width {
			end = at + width
		}
		lines, err := c.Source.rows(ctx, c.pair.From, c.foreign.Name, at, end, max(leastSamples, min(width, pageSteps)), most)
		if code := model.CodeOf(err); (code == model.CodeTooLarge || code == model.CodeInvalid) && width > 1 {
			width = max(width/4, 1) // a server says in words of its own that a page is too large
			continue
		} else if code == model.CodeTooLarge && most < maxAnswer {
			most = maxAnswer
			continue
		}
		if err != nil {
			return err
		}
		if len(lines) >= leastSamples && end-at > pageSteps {
			width = pageSteps // they may be a sample of more
			continue
		}
		if strict && len(lines) > 0 && end-at > 1 {
			whole, err := c.isWhole(ctx, at, end, len(lines))
			if err != nil {
				return err
			}
			if !whole {
				width = max((end-at)/4, 1)
				continue
			}
		}
		p := page{lines: lines}
		for _, line := range lines {
			p.bytes += len(line)
		}
		at = end
		width = next(width, p)
		if len(lines) == 0 {
			continue
		}
		select {
		case pages <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// isWhole compares the rows of a page with those of its halves: a sample has fewer.
func (c *copying) isWhole(ctx context.Context, from, to int64, rows int) (bool, error) {
	middle, halves := from+(to-from)/2, 0
	for _, half := range [][2]int64{{from, middle}, {middle, to}} {
		lines, err := c.Source.rows(ctx, c.pair.From, c.foreign.Name, half[0], half[1], leastSamples, maxAnswer)
		if err != nil {
			return false, err
		}
		halves += len(lines)
	}
	return halves <= rows, nil
}

// next is how wide the page after one is.
func next(width int64, p page) int64 {
	switch {
	case p.bytes > pageBytes/2:
		return max(width/2, 1)
	case width < pageSteps && p.bytes < pageBytes/8:
		return min(2*width, pageSteps)
	case len(p.lines) == 0:
		return min(width*16, widest)
	case len(p.lines) < leastSamples/4:
		return min(width*2, widest)
	case len(p.lines) > leastSamples/2:
		return max(width/2, min(width, pageSteps))
	}
	return width
}

// write sends pages, several in a request.
func (c *copying) write(ctx context.Context, pages <-chan page) error {
	var batch page
	sent := int64(0)
	flush := func() error {
		if len(batch.lines) == 0 {
			return nil
		}
		if err := c.Target.stream(ctx, c.pair.To, c.foreign.Name, "wandb-history.jsonl", sent, batch.lines); err != nil {
			return err
		}
		sent += int64(len(batch.lines))
		c.count(int64(len(batch.lines)), batch.bytes)
		c.line.Bytes += int64(batch.bytes)
		batch = page{lines: batch.lines[:0]}
		return nil
	}
	for p := range pages {
		for _, line := range p.lines {
			if len(batch.lines) > 0 && (batch.bytes+len(line) > batchBytes || len(batch.lines) >= batchRows) {
				if err := flush(); err != nil {
					return err
				}
			}
			batch.lines, batch.bytes = append(batch.lines, line), batch.bytes+len(line)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return flush()
}

func (c *copying) count(rows int64, bytes int) {
	c.counted += rows
	c.progress.did(rows, int64(bytes))
}

// events copies what the SDK measured of the machine. A server gives them as a sample of a
// size, so it is asked for as many as there are.
func (c *copying) events(ctx context.Context, from, to *extent) error {
	if from.Events <= 0 || from.Events == to.Events {
		c.line.Events = int64(to.Events)
		return nil
	}
	var batch page
	given, sent := int64(0), int64(0)
	flush := func() error {
		err := c.Target.stream(ctx, c.pair.To, c.foreign.Name, "wandb-events.jsonl", sent, batch.lines)
		sent += int64(len(batch.lines))
		c.progress.did(0, int64(batch.bytes))
		batch = page{lines: batch.lines[:0]}
		return err
	}
	begin := func() { given, sent, batch = 0, 0, page{lines: batch.lines[:0]} }
	err := c.Source.events(ctx, c.pair.From, c.foreign.Name, from.Events, begin, func(line string) error {
		given++
		batch.lines, batch.bytes = append(batch.lines, line), batch.bytes+len(line)
		if batch.bytes < batchBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	if len(batch.lines) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	c.line.Events = given
	if given < int64(from.Events) {
		c.line.skip("system events that the source counts and does not give", int64(from.Events)-given)
	}
	return nil
}

// files copies the files that the destination lacks or has with other content.
func (c *copying) files(ctx context.Context) error {
	from, err := filesOf(ctx, c.Source.Client, c.pair.From, c.foreign.Name)
	if err != nil || len(from) == 0 {
		return err
	}
	to, err := filesOf(ctx, c.Target.Client, c.pair.To, c.foreign.Name)
	if err != nil {
		return err
	}
	there := make(map[string]runFile, len(to))
	for _, f := range to {
		there[f.Name] = f
	}
	for i := range from {
		f := &from[i]
		have, ok := there[f.Name]
		if ok && have.Size == f.Size && (f.MD5 == "" || have.MD5 == f.MD5) {
			continue
		}
		if err := c.file(ctx, f); err != nil {
			switch code := model.CodeOf(err); code {
			case model.CodeUnavailable, model.CodeUnauthenticated, model.CodePermission:
				return err
			}
			if ctx.Err() != nil {
				return ErrInterrupted
			}
			c.line.State = transfer.Failed
			c.line.Error = fmt.Sprintf("the file %s: %s", model.Clip(f.Name), withHint(err))
			continue
		}
		c.line.Files++
		c.line.FileBytes += int64(f.Size)
	}
	if c.line.Files > 0 && c.line.State == transfer.Unchanged {
		c.line.State = transfer.Updated
	}
	return nil
}

func (c *copying) file(ctx context.Context, f *runFile) error {
	if err := model.CheckFileName(f.Name); err != nil {
		return err
	}
	addresses, err := c.Target.addresses(ctx, c.pair.To, c.foreign.Name, []string{f.Name})
	if err != nil {
		return err
	}
	return copyFile(ctx, c.Source, c.Target, f, addresses[f.Name], func(bytes int) { c.progress.did(0, int64(bytes)) })
}

// CheckFilter refuses what is no filter before a server is asked.
func CheckFilter(text string) error {
	var tree map[string]any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return model.Errorf(model.CodeInvalid, "the filter is no JSON object: %v", err).
			WithHint(`It is W&B's, such as {"state": "finished", "config.lr": {"$lt": 0.1}}.`)
	}
	return nil
}
