// Package journal is the log in front of ClickHouse: a stream of NATS JetStream, which has blocks
// of points until they are drained into the table of points.
//
// In go blocks with a name ([Journal.Put]), which the stream has when Put returns; out come blocks
// to drain ([Journal.Take]), each until it is done ([Block.Done]). A block may come again, also to
// another server, and more than once: who takes it asks the ledger whether it counts.
//
// Start with [Open].
package journal

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// putFor is how long the stream may take for a block.
	putFor = 3 * time.Second
	// askFor is how long it may take for an answer about itself.
	askFor = 5 * time.Second
	// ackWait is after what silence of a server its blocks go to another one.
	ackWait = 5 * time.Second
	// mostTaken is how many blocks of a shard all servers together may have at once.
	mostTaken = 1024
	// blockHeader is the name of a block, in hexadecimal digits.
	blockHeader = "Kymogram-Block"
	// madeKey is where the stream says which log it is.
	madeKey = "kymogram.log"
	// overhead is what a message has besides its block.
	overhead = 512
)

// KeepEvery is how often [Block.Keep] is called for a block that is not done.
const KeepEvery = ackWait / 5

// Options are how code opens a log.
type Options struct {
	Address string // see [Check]
	Secret  []byte // of the store, from which the name of its stream follows
	Node    string // names this server to people
	Shards  int
	// Known is the log that the store has, empty for none yet.
	Known string
}

// Journal is safe for parallel use.
type Journal struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	drains []jetstream.Consumer // by shard, from 0
	made   string
}

// Open connects to the servers, and makes what is missing. A stream is made only where the store
// has no log yet.
func Open(ctx context.Context, o Options) (*Journal, error) {
	p, err := parse(o.Address)
	if err != nil {
		return nil, err
	}
	conn, err := p.connect(o.Node)
	if err != nil {
		return nil, unreachable(err)
	}
	j := &Journal{conn: conn}
	ctx, cancel := context.WithTimeout(ctx, 3*askFor)
	defer cancel()
	if err := j.find(ctx, p, o); err != nil {
		conn.Close()
		return nil, err
	}
	return j, nil
}

// find looks up the stream, or makes it.
func (j *Journal) find(ctx context.Context, p *place, o Options) (err error) {
	if j.js, err = jetstream.New(j.conn, jetstream.WithDefaultTimeout(askFor)); err != nil {
		return unreachable(err)
	}
	j.stream, err = j.js.Stream(ctx, streamOf(o.Secret))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if o.Known != "" {
			return model.Errorf(model.CodeConflict, "%s does not have the log of this store", Named(o.Address)).
				WithHint("Look at the address. docs/scale-out.md says how a store gets another log.")
		}
		j.stream, err = j.create(ctx, p, streamOf(o.Secret))
	}
	if err != nil {
		return refused(err)
	}
	j.made = j.stream.CachedInfo().Config.Metadata[madeKey]
	for shard := range uint32(o.Shards) {
		c, err := j.stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: fmt.Sprintf("drain-%d", shard+1), FilterSubject: j.subject(shard + 1),
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: mostTaken,
		})
		if err != nil {
			return refused(err)
		}
		j.drains = append(j.drains, c)
	}
	return nil
}

// create makes the stream, of three copies where there are servers for them. Two servers may do
// it at once.
func (j *Journal) create(ctx context.Context, p *place, name string) (jetstream.Stream, error) {
	c := jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".*"}, Description: "points of Kymogram on their way to ClickHouse",
		Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxBytes: p.bytes, Replicas: p.replicas, Metadata: map[string]string{madeKey: strings.ToLower(rand.Text())},
	}
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	s, err := j.js.CreateStream(ctx, c)
	if p.replicas == 0 && alone(err) {
		c.Replicas = 1
		s, err = j.js.CreateStream(ctx, c)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return j.js.Stream(ctx, c.Name)
	}
	return s, err
}

// alone reports whether a server has no cluster to keep copies in.
func alone(err error) bool {
	const notClustered = 10074
	var said *jetstream.APIError
	return errors.As(err, &said) && said.ErrorCode == notClustered
}

// streamOf names the stream of a store, so that two stores of one NATS have different ones.
func streamOf(secret []byte) string {
	sum := sha256.Sum256(append([]byte("the stream of points\n"), secret...))
	return "kymogram_" + hex.EncodeToString(sum[:16])
}

// subject is that of a shard's blocks.
func (j *Journal) subject(shard uint32) string {
	return fmt.Sprintf("%s.%d", j.stream.CachedInfo().Config.Name, shard)
}

// Close ends the connection.
func (j *Journal) Close() { j.conn.Close() }

// Made is what the stream was named when it was made.
func (j *Journal) Made() string { return j.made }

// Most is how many bytes a block may have.
func (j *Journal) Most() int { return int(j.conn.MaxPayload()) - overhead }

// Put adds a block of a shard. After an error it is not known whether the log has it.
func (j *Journal) Put(ctx context.Context, shard uint32, id [16]byte, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, putFor)
	defer cancel()
	name := hex.EncodeToString(id[:])
	m := &nats.Msg{Subject: j.subject(shard), Data: data, Header: nats.Header{}}
	m.Header.Set(blockHeader, name)
	if _, err := j.js.PublishMsg(ctx, m, jetstream.WithMsgID(name), jetstream.WithRetryAttempts(0)); err != nil {
		return refused(err)
	}
	return nil
}

// Block is one that has to be drained.
type Block struct {
	ID   [16]byte
	Data []byte

	message jetstream.Msg
}

// Take waits for a block of a shard, and gives all that are there then, as many as most.
func (j *Journal) Take(ctx context.Context, shard uint32, most int, wait time.Duration) ([]*Block, error) {
	c := j.drains[shard-1]
	out, err := blocks(c.Fetch(1, jetstream.FetchMaxWait(max(wait, time.Millisecond))))
	if err != nil || len(out) == 0 || most <= 1 || ctx.Err() != nil {
		return out, err
	}
	more, err := blocks(c.FetchNoWait(most - 1))
	return append(out, more...), err
}

func blocks(batch jetstream.MessageBatch, err error) (out []*Block, _ error) {
	if err != nil {
		return nil, refused(err)
	}
	for m := range batch.Messages() {
		b := &Block{Data: m.Data(), message: m}
		name, err := hex.DecodeString(m.Headers().Get(blockHeader))
		if err != nil || len(name) != len(b.ID) {
			return out, model.Errorf(model.CodeInternal, "the log has a message that is no block of points").
				WithHint("Nobody else may write to the streams whose names begin with kymogram_.")
		}
		copy(b.ID[:], name)
		out = append(out, b)
	}
	if err := batch.Error(); err != nil && len(out) == 0 {
		return nil, refused(err)
	}
	return out, nil
}

// Keep says that a block is still being drained here.
func (b *Block) Keep() { _ = b.message.InProgress() } // without it another server drains it, too

// Back gives a block to whoever asks next.
func (b *Block) Back() { _ = b.message.Nak() } // without it that is so after a while

// Done removes a block. Without an answer it may come again.
func (b *Block) Done() { _ = b.message.Ack() }

// State is how a log is.
type State struct {
	Bytes, Most uint64
	Blocks      uint64
	Copies      int
	Leader      string
}

// Probe fails while the log takes no blocks.
func (j *Journal) Probe(ctx context.Context) error {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return refused(err)
	}
	if s := stateOf(info); s.Bytes >= s.Most {
		return full()
	}
	return nil
}

// Examine looks at the log of a store, and changes nothing. It is nil where none was made yet.
func Examine(ctx context.Context, address string, secret []byte) (*State, error) {
	p, err := parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := p.connect("doctor")
	if err != nil {
		return nil, unreachable(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(askFor))
	if err != nil {
		return nil, unreachable(err)
	}
	stream, err := js.Stream(ctx, streamOf(secret))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil //nolint:nilnil // there is none, and that is no failure
	}
	if err != nil {
		return nil, refused(err)
	}
	s := stateOf(stream.CachedInfo())
	return &s, nil
}

func stateOf(info *jetstream.StreamInfo) State {
	s := State{Bytes: info.State.Bytes, Most: uint64(max(info.Config.MaxBytes, 0)), Blocks: info.State.Msgs, Copies: info.Config.Replicas}
	if s.Most == 0 {
		s.Most = 1<<63 - 1
	}
	if info.Cluster != nil {
		s.Leader = info.Cluster.Leader
	}
	return s
}

func full() error {
	return model.Errorf(model.CodeUnavailable, "the log in front of ClickHouse is full").
		WithHint("Look whether ClickHouse takes inserts: the log is emptied into it. Clients keep what was not acknowledged, and send it again.")
}

func unreachable(err error) error {
	return model.Errorf(model.CodeUnavailable, "NATS cannot be reached: %v", err).WithHint("Look at the address of the log, and whether its servers run.")
}

// refused is the error for a request that the servers did not do.
func refused(err error) error {
	var said *jetstream.APIError
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &said) && strings.Contains(said.Description, "maximum bytes"):
		return full()
	case errors.As(err, &said):
		return model.Errorf(model.CodeUnavailable, "NATS refused: %s", said.Description).
			WithHint("Look at the limits of JetStream, and how many of its servers are there. Clients keep what was not acknowledged, and send it again.")
	}
	return model.Errorf(model.CodeUnavailable, "the log does not answer: %v", err).
		WithHint("Look whether most of the NATS servers run; clients keep what was not acknowledged, and send it again.")
}
