package netstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/read"
)

// maxTries is how often a record is signed anew because another process of this
// hotkey was faster.
const maxTries = 64

// openWait is how long a publication waits for the server to open the run.
const openWait = 15 * time.Second

// UpdateConfig changes the state: keys of the config section, nil to remove one. It
// signs one record over the whole section, on top of the newest that the server has,
// and returns when the server took it. What cannot be delivered waits in the database.
// It goes out with the next update, with Run, or when a process joins again.
func (n *Node) UpdateConfig(ctx context.Context, changes map[string]any) error {
	plain, err := asJSON(changes)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before, err := n.db.pending(ctx, n.place)
	if err == nil {
		err = n.db.addPending(ctx, n.place, plain)
	}
	if err != nil {
		return err
	}
	err = n.tryPublish(ctx)
	n.waiting = err != nil
	if err != nil && !later(err) { // it would be refused again, and all after it
		return errors.Join(fmt.Errorf("publish the state: %w", err), n.takeBack(context.WithoutCancel(ctx), plain, before))
	}
	if err != nil {
		n.asked = false
		return fmt.Errorf("the state waits for the next update: %w", err)
	}
	return nil
}

// takeBack leaves the changes that waited before.
func (n *Node) takeBack(ctx context.Context, changes, before map[string]any) error {
	if err := n.db.settle(ctx, n.place, changes); err != nil {
		return err
	}
	maps.DeleteFunc(before, func(key string, _ any) bool { _, changed := changes[key]; return !changed })
	return n.db.addPending(ctx, n.place, before)
}

// tryPublish signs again on top of who was faster, and waits for a run that the
// server has not heard of yet.
func (n *Node) tryPublish(ctx context.Context) (err error) {
	known := false
	for range maxTries {
		switch err = n.publish(ctx); {
		case model.CodeOf(err) == model.CodeStateConflict:
			n.asked = false
		case model.CodeOf(err) == model.CodeNotFound && n.run.Offline() && !known:
			known = true
			waiting, stop := context.WithTimeout(ctx, openWait)
			_ = n.run.Flush(waiting, true) // the next try tells whether it came
			stop()
		default:
			return err
		}
	}
	return err
}

// SignRun signs the state as it is, so that it counts for another while.
func (n *Node) SignRun(ctx context.Context) error { return n.UpdateConfig(ctx, nil) }

// refusedForGood reports whether the state itself is what the server does not take.
func refusedForGood(err error) bool {
	return model.CodeOf(err) == model.CodeInvalid || model.CodeOf(err) == model.CodeTooLarge
}

// later reports whether the same state may be taken at another time.
func later(err error) bool {
	if err == nil {
		return false
	}
	switch model.CodeOf(err) {
	case model.CodeInvalid, model.CodeTooLarge, model.CodeStateRefused, model.CodePermission, model.CodeUnauthenticated:
		return false
	}
	return true
}

// asJSON turns values into what a reader decodes, so that structs become objects.
func asJSON(changes map[string]any) (map[string]any, error) {
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "the state is not JSON: %v", err).WithHint("use numbers, texts, lists and maps; no NaN and no infinity")
	}
	out := map[string]any{}
	return out, json.Unmarshal(text, &out)
}

// publish signs what is pending on top of the server's head.
func (n *Node) publish(ctx context.Context) error {
	if _, err := n.registry.look(ctx); err != nil {
		return err
	}
	last, config, err := n.newest(ctx)
	if err != nil {
		return err
	}
	pending, err := n.db.pending(ctx, n.place)
	if err != nil {
		return err
	}
	old := maps.Clone(config)
	for key, value := range pending {
		if config[key] = value; value == nil {
			delete(config, key)
		}
	}
	payload, err := json.Marshal(config)
	if err != nil {
		return err
	}
	envelope, err := n.seal(ctx, last, payload)
	if err != nil {
		return err
	}
	path := remote.RunPath(n.run.ID(), "state")
	var taken struct{ Index uint64 }
	if err := n.server.Exchange(ctx, http.MethodPost, path, envelope, &taken); err != nil {
		return n.blame(ctx, err)
	}
	n.head = envelope
	whole := context.WithoutCancel(ctx) // the server has it
	err = n.db.write(whole, func(tx execer) error {
		if err := dropPending(whole, tx, n.place, pending); err != nil {
			return err
		}
		return remember(whole, memory{tx}, n.place, envelope)
	})
	if err != nil {
		return err
	}
	return n.describe(old, config)
}

// newest is the server's newest record of this run and its config section. One that
// this hotkey did not sign for this place stops everything: nothing of it counts.
func (n *Node) newest(ctx context.Context) (*state.Record, map[string]any, error) {
	if !n.asked {
		head, err := n.serverHead(ctx, n.run.ID())
		if err != nil {
			return nil, nil, err
		}
		n.head, n.asked = head, true
	}
	config := map[string]any{}
	if n.head == nil {
		return nil, config, nil
	}
	record, err := n.head.Open()
	if err == nil && record.Place != n.place {
		err = fmt.Errorf("it is of another place: %s", record.Place)
	}
	if err != nil {
		n.asked = false
		refusal := model.Errorf(model.CodeStateRefused, "the server's newest record of this run is not ours: %v", err)
		// An honest server takes no stranger's record into a run that is named after us.
		if name, err := n.displayName(ctx); err == nil && record != nil && record.Hotkey != n.place.Hotkey && name != DisplayName(n.place.Role, n.Hotkey()) {
			return nil, nil, taken(refusal)
		}
		return nil, nil, refusal.WithHint("take another server, or another run: delete the hotkey's row of wandb_runs")
	}
	payload, err := n.latest(ctx, record)
	if err != nil {
		return nil, nil, err
	}
	return record, config, json.Unmarshal(payload, &config)
}

// foreign is a refusal because the run is somebody else's.
type foreign struct{ error }

// taken says so. What to do is in the message: the log of [Node.Run] shows no hints.
func taken(refusal error) error {
	return foreign{model.Errorf(model.CodeStateRefused, "%v; join again: a new run begins", refusal)}
}

func (f foreign) Unwrap() error { return f.error }

// blame finds out whether a record was refused because the run is named after another
// participant: a stranger can have opened it first.
func (n *Node) blame(ctx context.Context, refusal error) error {
	if model.CodeOf(refusal) != model.CodeStateRefused || n.head != nil {
		return refusal
	}
	name, err := n.displayName(ctx)
	if err != nil {
		return refusal //nolint:nilerr // the refusal is what counts
	}
	role, address, _ := strings.Cut(name, "-")
	hotkey, _, err := wallet.ParseAddress(address)
	if err != nil || role != Validator && role != Miner || role == n.place.Role && hotkey == n.place.Hotkey {
		return refusal //nolint:nilerr // a name like any other
	}
	return taken(refusal)
}

// displayName is the name of our run at the server.
func (n *Node) displayName(ctx context.Context) (string, error) {
	run, err := read.Over(n.server).Run(ctx, n.opts.Entity+"/"+n.opts.Project+"/"+n.place.Run)
	if err != nil {
		return "", err
	}
	return run.DisplayName, nil
}

// latest is the newest config section that is known: the server's, or our own where
// the server was restored from a backup of before.
func (n *Node) latest(ctx context.Context, server *state.Record) (payload []byte, err error) {
	err = n.db.write(ctx, func(tx execer) error {
		own, err := memory{tx}.Head(ctx, n.place)
		if err != nil || own == nil {
			return err
		}
		if r, err := own.Open(); err == nil && r.Sequence > server.Sequence {
			payload = own.Payload
		}
		return nil
	})
	if payload == nil {
		payload = n.head.Payload
	}
	return payload, err
}

// remember keeps a record as the newest of its place.
func remember(ctx context.Context, m memory, at state.Place, e *state.Envelope) error {
	var from state.Hash
	before, err := m.Head(ctx, at)
	if err != nil {
		return err
	}
	if before != nil {
		from = before.Hash()
	}
	_, err = m.Advance(ctx, at, from, e)
	return err
}

// serverHead is what a server says is the newest record of a run, nil for none.
func (n *Node) serverHead(ctx context.Context, run string) (*state.Envelope, error) {
	doc, err := n.server.Document(ctx, http.MethodGet, remote.RunPath(run, "state"), nil)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Head *state.Entry `json:"head"`
	}
	if err := json.Unmarshal(doc, &answer); err != nil {
		return nil, fmt.Errorf("read the server's newest record: %w", err)
	}
	if answer.Head == nil {
		return nil, nil
	}
	return &answer.Head.Envelope, nil
}

// seal signs a payload with a sequence that was never given out.
func (n *Node) seal(ctx context.Context, last *state.Record, payload []byte) (*state.Envelope, error) {
	now := n.opts.Now()
	r := state.Record{
		Place: n.place, Block: n.registry.block(), TimeMs: uint64(now.UnixMilli()), ExpiresMs: uint64(now.Add(n.opts.Life).UnixMilli()),
		Machine: n.machine, PayloadType: state.ConfigPayload,
	}
	head := uint64(0)
	if last != nil {
		head, r.Previous = last.Sequence, n.head.Hash()
	}
	var err error
	if r.Sequence, err = n.db.takeSequence(ctx, n.place, head, now); err != nil {
		return nil, err
	}
	return state.Seal(r, payload, n.wallet)
}

// describe writes the state into the run's attributes too, for readers that know
// W&B's way only. Attributes of what is gone are removed.
func (n *Node) describe(old, config map[string]any) error {
	before, now := map[string]any{}, map[string]any{}
	leaves("", old, before)
	leaves("", config, now)
	changes := map[string]any{}
	for path := range before {
		if _, stays := now[path]; !stays {
			changes[path] = nil
		}
	}
	for path, value := range now {
		if was, known := before[path]; !known || was != value {
			changes[path] = value
		}
	}
	return n.run.LogAttributes("config", changes)
}

// leaves puts the values of nested maps and lists under their paths.
func leaves(path string, value any, out map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		for key, one := range v {
			leaves(strings.TrimPrefix(path+"/"+key, "/"), one, out)
		}
	case []any:
		for i, one := range v {
			leaves(path+"/"+strconv.Itoa(i), one, out)
		}
	case float64:
		if whole := int64(v); float64(whole) == v {
			out[path] = whole
			return
		}
		out[path] = v
	default:
		out[path] = v
	}
}
