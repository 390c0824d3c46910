package netstate

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/state"
)

// Machine is this database's random number: two machines with one hotkey differ in it.
func (d *ComputeDb) Machine(ctx context.Context) (out [16]byte, err error) {
	var raw []byte
	_, err = d.row(ctx, "SELECT machine FROM state_self", nil, &raw)
	copy(out[:], raw)
	return out, wrap("read the machine's number", err)
}

// keyOf names a place in the tables: all that a record binds.
func keyOf(at state.Place) string {
	genesis, _ := at.Genesis.MarshalText() // never fails
	netuid, _ := json.Marshal(at.Netuid)
	return strings.Join([]string{string(genesis), string(netuid), at.Role, at.Hotkey.String(), at.Workspace, at.Project, at.Run}, "\n")
}

// lanes is how many processes can give out sequences that never meet. Each draws its
// lane at random, so that two machines with one hotkey sign one sequence once in
// 2,000,000 pairs of processes, whatever their clocks and heads say.
const lanes = 1 << 21

// lastSecond is the latest time that a sequence follows, in 2072. A clock that is wrong
// leaves 2^30 numbers of each lane.
const lastSecond = 3 << 30

// nextSequence is the least number of a lane above floor and not below the time. A
// second has one of each lane; who signs faster runs ahead of the clock.
func nextSequence(floor uint64, now time.Time, lane uint64) uint64 {
	second := uint64(min(max(0, now.Unix()), lastSecond))
	next := max(floor/lanes, second)*lanes + lane
	if next <= floor {
		next += lanes
	}
	return next
}

// takeSequence gives out the next sequence of a place, and no process gets it again:
// above the last one of this database, above the server's head, and not below the
// time, so that a restored backup does not give one out that it forgot.
func (d *ComputeDb) takeSequence(ctx context.Context, at state.Place, head uint64, now time.Time) (next uint64, err error) {
	key := keyOf(at)
	err = d.write(ctx, func(tx execer) error {
		var last uint64
		err := tx.QueryRowContext(ctx, "SELECT last FROM state_sequence WHERE place = ?", key).Scan(&last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		next = nextSequence(max(last, head), now, d.lane)
		_, err = tx.ExecContext(ctx, "INSERT INTO state_sequence (place, last) VALUES (?, ?) ON CONFLICT(place) DO UPDATE SET last = excluded.last", key, next)
		return err
	})
	return next, wrap("take a sequence", err)
}

// memory is what a reader keeps of others: [state.Memory] in a transaction of the
// database, so that a page of a hundred records waits for the disk once.
type memory struct{ tx execer }

// Head is asked for where a hotkey counts. What was only noted of it before counts from
// here on. A program of before noted also what the hotkey never signed: that is forgotten.
func (m memory) Head(ctx context.Context, at state.Place) (*state.Envelope, error) {
	known, err := lookUp(ctx, m.tx, at)
	if err != nil || known.hash == "" {
		return nil, err
	}
	head := new(state.Envelope)
	if err := json.Unmarshal([]byte(known.envelope), head); err != nil || known.counted {
		return head, wrap("remember "+at.String(), err)
	}
	change := "UPDATE state_seen SET counted = 1 WHERE place = ?"
	if r, err := head.Signed(); err != nil || r.Place != at {
		head, change = nil, "DELETE FROM state_seen WHERE place = ?"
	}
	_, err = m.tx.ExecContext(ctx, change, known.key)
	return head, wrap("remember "+at.String(), err)
}

func (m memory) Proof(ctx context.Context, at state.Place) (*state.Proof, error) {
	return kept[state.Proof](ctx, m.tx, "SELECT proof FROM state_proof WHERE place = ?", at)
}

func kept[T any](ctx context.Context, tx execer, query string, at state.Place) (*T, error) {
	var text string
	err := tx.QueryRowContext(ctx, query, keyOf(at)).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, wrap("remember "+at.String(), err)
	}
	out := new(T)
	return out, wrap("remember "+at.String(), json.Unmarshal([]byte(text), out))
}

func (m memory) Advance(ctx context.Context, at state.Place, from state.Hash, to *state.Envelope) (bool, error) {
	text, err := json.Marshal(to)
	if err != nil {
		return false, err
	}
	key, hash := keyOf(at), to.Hash().String()
	var done sql.Result
	if from.IsZero() {
		done, err = m.tx.ExecContext(ctx, "INSERT OR IGNORE INTO state_seen (place, hash, envelope, counted) VALUES (?, ?, ?, 1)", key, hash, string(text))
	} else {
		done, err = m.tx.ExecContext(ctx, "UPDATE state_seen SET hash = ?, envelope = ? WHERE place = ? AND hash = ?", hash, string(text), key, from.String())
	}
	if err != nil {
		return false, wrap("remember "+at.String(), err)
	}
	n, err := done.RowsAffected()
	return n == 1, err
}

func (m memory) Keep(ctx context.Context, at state.Place, proof *state.Proof) error {
	text, err := json.Marshal(proof)
	if err != nil {
		return err
	}
	_, err = m.tx.ExecContext(ctx, `INSERT INTO state_proof (place, proof) VALUES (?, ?)
		ON CONFLICT(place) DO UPDATE SET proof = excluded.proof`, keyOf(at), string(text))
	return wrap("keep a proof", err)
}
