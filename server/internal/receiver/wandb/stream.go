package wandb

import (
	"bytes"
	"context"
	"iter"
	"net/http"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
)

// The files of a stream.
const (
	fileHistory = "wandb-history.jsonl"
	fileEvents  = "wandb-events.jsonl"
	fileSummary = "wandb-summary.json"
	fileConsole = "output.log"
)

// chunk is the body of a file_stream. Its lines are the raw JSON strings.
type chunk struct {
	history                                 *row.Feed
	events, console, summary                []byte // arrays of lines
	historyFrom, eventsFrom, consoleFrom    int64  // the numbers of the first ones
	historyLines, eventsLines, consoleLines int64
	complete                                bool
	failed                                  bool
	dropped                                 uint64
	client                                  string // names the process in shared mode
	shared                                  bool
}

// fileStream takes what a process logged since its last request.
func (r *Receiver) fileStream(w http.ResponseWriter, q *http.Request) {
	if err := r.takeChunk(q); err != nil {
		r.fail(w, q, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"exitcode":null,"limits":{},"stopped":false}`)) // the client is gone when this fails
}

func (r *Receiver) takeChunk(q *http.Request) error {
	ctx, at := q.Context(), placeOf(q)
	if err := model.CheckPlace(at.entity, at.project); err != nil {
		return err
	}
	if err := r.query.AllowWrite(ctx, at.entity, at.project); err != nil {
		return err
	}
	// What is stored is compared with what comes, so the key must read too.
	if err := r.query.Allow(ctx, at.entity, at.project); err != nil {
		return err
	}
	id, err := r.ingest.FindRun(ctx, at.entity, at.project, at.run)
	if err != nil {
		return err
	}
	body, done, err := r.read(q, func(body []byte) int64 { return costOfChunk(int64(len(body))) })
	if err != nil {
		return err
	}
	defer done()
	c, err := readChunk(body)
	if err != nil {
		return err
	}
	c.client, c.shared = clientOf(q), q.Header.Get("X-Wandb-Use-Async-Filestream") == "true"
	v, release := r.lives.acquire(id, at)
	defer release()
	if err := r.load(ctx, v); err != nil {
		return err
	}
	if err := r.store(ctx, v, c); err != nil {
		v.close()
		return err
	}
	return nil
}

// clientOf is what names a process of a run in shared mode.
func clientOf(q *http.Request) string {
	for _, name := range []string{"X-Wandb-Async-Client-Id", "X-Wandb-Client-Id"} {
		if id := q.Header.Get(name); id != "" {
			return cleaned(id)
		}
	}
	return ""
}

// readChunk reads a body. Most of it are rows, so it is walked through once.
func readChunk(body []byte) (*chunk, error) {
	c := &chunk{}
	if len(bytes.TrimSpace(body)) == 0 {
		return c, nil
	}
	at := loose.NewCursor(body)
	for key := range at.Members() {
		switch {
		case loose.IsKey(key, "files"):
			if err := c.files(body, at); err != nil {
				return nil, err
			}
		case loose.IsKey(key, "complete"):
			c.complete = string(at.Value()) == "true"
		case loose.IsKey(key, "failed"):
			c.failed = string(at.Value()) == "true" || c.failed
		case loose.IsKey(key, "exitcode"):
			code, _ := loose.Float(at.Value())
			c.failed = c.failed || code != 0
		case loose.IsKey(key, "dropped"):
			n, _ := loose.Float(at.Value())
			c.dropped = uint64(min(max(n, 0), 1<<53))
		}
	}
	if err := at.End(); err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the body is no JSON of a file_stream: %s", model.Clip(err.Error()))
	}
	return c, nil
}

// files reads what each file has.
func (c *chunk) files(body []byte, at *loose.Cursor) error {
	if at.Kind() != loose.Object {
		return nil // null: a heartbeat
	}
	for quoted := range at.Members() {
		if at.Kind() != loose.Object {
			continue
		}
		name, _ := loose.Text(quoted)
		if err := c.file(name, body, at); err != nil {
			return err
		}
	}
	return nil
}

// file reads what a file has. Of members that come twice the last stands.
func (c *chunk) file(name string, body []byte, at *loose.Cursor) error {
	var content []byte
	var history *row.Feed
	from := int64(0)
	for key := range at.Members() {
		switch {
		case loose.IsKey(key, "content"):
			if begin := at.At(); name == fileHistory && at.Kind() == loose.Array {
				history = row.ReadFeed(body, at)
				content = body[begin:at.At()]
			} else {
				content = at.Value()
			}
		case loose.IsKey(key, "offset"):
			n, _ := loose.Float(at.Value())
			from = int64(min(max(n, 0), 1<<53))
		}
	}
	if loose.KindOf(content) != loose.Array {
		return nil
	}
	switch name {
	case fileHistory:
		c.history, c.historyFrom = history, from
	case fileEvents:
		c.events, c.eventsFrom = content, from
	case fileSummary:
		c.summary = content
	case fileConsole:
		c.console, c.consoleFrom = content, from
	default:
		return model.Errorf(model.CodeInvalid, "a stream has no file %q", model.Clip(name)).
			WithHint("It is %s, %s, %s or %s.", fileHistory, fileEvents, fileSummary, fileConsole)
	}
	return nil
}

// A window is the lines that are worked on at once: what is made of a line may take many
// times its bytes.
const (
	windowLines = 8 << 10
	windowBytes = 1 << 20
)

// windows walks through the lines of an array of strings, which was checked. What is no string is given as it
// is. A window's lines stay as they are.
func windows(array []byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		if array == nil {
			return
		}
		var all [][]byte
		var room []byte
		size := 0
		for one := range loose.Items(array) {
			if len(all) == windowLines || size > 0 && size+len(one) > windowBytes {
				if !yield(all) {
					return
				}
				all, room, size = nil, nil, 0
			}
			if size += len(one); loose.KindOf(one) == loose.String {
				if cap(room)-len(room) < len(one) { // a text has no more bytes than its JSON
					room = make([]byte, 0, max(len(one), min(windowBytes, len(array))))
				}
				begin := len(room)
				room, _ = loose.AppendDecoded(room, one)
				one = room[begin:len(room):len(room)]
			}
			all = append(all, one)
		}
		if len(all) > 0 {
			yield(all)
		}
	}
}

// says tells a chunk that has something to store, or an end.
func (c *chunk) says() bool {
	return c.history != nil || c.events != nil || c.console != nil || c.summary != nil || c.complete || c.dropped > 0
}

// store stores a chunk. After an error some of it may be stored, and the life is to be
// closed: it is read anew. The client sends all of it again, and what is there is known by
// its row.
func (r *Receiver) store(ctx context.Context, v *life, c *chunk) error {
	if len(v.processes) == 0 && !c.says() {
		return nil // the last words of a process that has ended, or a heartbeat
	}
	if len(v.processes) == 0 { // the other processes have ended
		if _, err := r.begin(ctx, v, beginner{client: c.client, late: true}); err != nil {
			return err
		}
	}
	p := &placing{r: r, life: v, process: v.of(c), before: v.greatest, now: r.options.Now().UnixNano()}
	if err := p.all(ctx, c); err != nil {
		return err
	}
	p.process.took(c, r.options.Now())
	v.shared = v.shared || c.shared
	for _, one := range v.processes {
		one.session.Heartbeat()
	}
	if c.complete {
		return r.end(ctx, v, p.process, c.failed, p.now)
	}
	return nil
}
