package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
)

// Servers of one catalog hear of one another by NOTIFY. What must not be missed goes out with
// the transaction that does it: a key is revoked, a run deleted. News of runs are many and only
// say that there is something to read. They leave together, a few times a second. To commit a
// notice PostgreSQL takes a lock that all servers share, until the disk has it: were news part of
// each write, no two servers would write at once.
//
//	RevokeKey ─▶ transaction ─ COMMIT ──▶ notice ─▶ Follow of the others ─▶ hear
//	Publish ───▶ outbox ── 4 times a second ──▶ notice ─▶
//
// A connection that broke may have missed some: the next begins with [Change.Lost].

const (
	// newsPause is between two notices of news.
	newsPause = 250 * time.Millisecond
	// firstReconnect and lastReconnect are between two tries to listen.
	firstReconnect = 50 * time.Millisecond
	lastReconnect  = time.Second
	// connectFor is how long it may take to connect.
	connectFor = 10 * time.Second
	// quiet is how long nothing is heard before the connection is tried: one that leads nowhere
	// says nothing, either.
	quiet = 3 * time.Second
	// answerFor is how long the database may take to answer then.
	answerFor = 10 * time.Second
)

// channel is that of a catalog: a database may have several, in schemas.
const channel = `'kymogram_' || md5(current_schema())`

const notify = `SELECT pg_notify(` + channel + `, ?)`

// newSelf names a server to the others.
func newSelf() string { return rand.Text() }

// TellKey implements [tables.Telling].
func (t *transaction) TellKey(id string) error {
	return t.tell(&notice{From: t.self, Keys: []string{id}})
}

// TellRun implements [tables.Telling].
func (t *transaction) TellRun(run model.RunID) error {
	return t.tell(&notice{From: t.self, Runs: []model.RunID{run}})
}

func (t *transaction) tell(n *notice) error {
	text, err := n.payload()
	if err != nil {
		return err
	}
	return t.conn.queue(notify, []any{text})
}

// Publish tells the other servers that a run has news, soon. It never blocks.
func (d *DB) Publish(c model.RunChange) { d.outbox.put(c) }

// PublishRecords tells them that a project has new signed records, soon. It never blocks.
func (d *DB) PublishRecords(workspace, project string) {
	d.outbox.put(model.RunChange{Workspace: workspace, Project: project})
}

// Follow tells the other servers of news, and hear of what they do, until ctx ends. Where hear
// fails it gets a [Change.Lost] later.
func (d *DB) Follow(ctx context.Context, hear func(context.Context, Change) error) error {
	group, working := errgroup.WithContext(ctx)
	group.Go(func() error { d.spread(working); return nil })
	group.Go(func() error { d.listen(working, hear); return nil })
	return group.Wait()
}

// spread sends what is published. What waits at the end is sent, too.
func (d *DB) spread(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReconnect)
			defer cancel()
			_ = d.send(end) // the others read it all again when this server is back
			return
		case <-d.outbox.ready:
		}
		if err := d.send(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("cannot tell other servers of news; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(newsPause):
		}
	}
}

func (d *DB) send(ctx context.Context) error {
	next, lost := d.outbox.take()
	all := split(d.self, next)
	if lost {
		all = append(all, notice{From: d.self, Lost: true})
	}
	if len(all) == 0 {
		return nil
	}
	texts := make([]string, len(all))
	var err error
	for i := range all {
		if texts[i], err = all[i].payload(); err != nil {
			return err
		}
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return fmt.Errorf("encode notices: %w", err)
	}
	if _, err := d.writer.ExecContext(ctx, `SELECT pg_notify(`+channel+`, value) FROM json_each(?)`, string(list)); err != nil {
		d.outbox.giveBack(next, lost)
		return d.Failure("tell other servers", err)
	}
	d.counts.told.Add(uint64(len(all)))
	return nil
}

// listen hears the others, on one connection after the other.
func (d *DB) listen(ctx context.Context, hear func(context.Context, Change) error) {
	pause := firstReconnect
	for {
		began := time.Now()
		err := d.hearAll(ctx, hear)
		if ctx.Err() != nil {
			return
		}
		d.counts.broken.Add(1)
		d.log.Warn("other servers are not heard; connecting again", "err", err)
		if time.Since(began) > lastReconnect {
			pause = firstReconnect
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, lastReconnect)
	}
}

// hearAll listens until the connection or hear fails.
func (d *DB) hearAll(ctx context.Context, hear func(context.Context, Change) error) (err error) {
	begin, cancel := context.WithTimeout(ctx, connectFor)
	defer cancel()
	conn, err := pgx.ConnectConfig(begin, d.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReconnect)
		defer cancel()
		err = errors.Join(err, conn.Close(end))
	}()
	var name string
	if err := conn.QueryRow(begin, `SELECT `+channel).Scan(&name); err != nil {
		return err
	}
	if _, err := conn.Exec(begin, `LISTEN `+pgx.Identifier{name}.Sanitize()); err != nil {
		return err
	}
	if err := d.heed(ctx, Change{Lost: true}, hear); err != nil {
		return err
	}
	for {
		n, err := next(ctx, conn)
		if err != nil {
			return err
		}
		if c, other := heard(d.self, n.Payload); other {
			d.counts.heard.Add(1)
			if err := d.heed(ctx, c, hear); err != nil {
				return err
			}
		}
	}
}

// next is the next notice. It fails where the database does not answer.
func next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	for {
		wait, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(wait)
		cancel()
		if err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
			return n, err
		}
		try, cancel := context.WithTimeout(ctx, answerFor)
		err = conn.Ping(try)
		cancel()
		if err != nil {
			return nil, err
		}
	}
}

// heed takes a change into account here first.
func (d *DB) heed(ctx context.Context, c Change, hear func(context.Context, Change) error) error {
	if c.Lost || len(c.Runs) > 0 {
		d.Moved()
	}
	return hear(ctx, c)
}
