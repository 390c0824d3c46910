package subtensor

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/blake2b"
)

// Node is a chain of one authority. Blocks are made by [Node.Produce] and by every
// extrinsic that the pool takes.
type Node struct {
	code *Code

	mu     sync.Mutex
	blocks []*block
	byHash map[[32]byte]*block
	clock  time.Time // of the last block
	slot   time.Duration
	grown  chan struct{} // closed at the next block
	refuse func(extrinsic []byte) *Refusal
	late   func() int // nil: never
	open   map[*session]bool

	cutNext, holdNext bool
	held              []byte // waits in the pool
}

type block struct {
	hash       [32]byte
	number     uint32
	header     []byte
	parent     [32]byte
	extrinsics [][]byte
	state      map[string][]byte
}

// Refusal is a pool's answer to an extrinsic it does not take.
type Refusal struct {
	Code    int
	Message string
	Data    string
}

func (r *Refusal) Error() string { return r.Message + ": " + r.Data }

// Options change the genesis of a node.
type Options struct {
	// Storage replaces values of the genesis state.
	Storage map[string][]byte
	// Start is the time of the first block.
	Start time.Time
	// Late makes the node one of several behind a balancer, which gives each call to another:
	// it says how many blocks the one that answers is behind. Nil: none is.
	Late func() int
}

// NewNode starts a chain at its genesis.
func (c *Code) NewNode(ctx context.Context, o Options) (*Node, error) {
	start := o.Start
	if start.IsZero() {
		start = time.Date(2025, 2, 14, 0, 0, 0, 0, time.UTC)
	}
	genesis := maps.Clone(c.genesis)
	owner, err := NamedKey(ownerName)
	if err != nil {
		return nil, err
	}
	key, value := Fund(owner.Account(), ownerBalance)
	genesis[key] = value
	maps.Copy(genesis, o.Storage)
	n := &Node{code: c, byHash: map[[32]byte]*block{}, clock: start, late: o.Late, grown: make(chan struct{}), open: map[*session]bool{}}
	s := newState(genesis)
	raw, err := c.call(ctx, s, "AuraApi_slot_duration", nil)
	if err != nil {
		return nil, err
	}
	n.slot = time.Duration(binary.LittleEndian.Uint64(raw)) * time.Millisecond
	root := s.digest()
	header := slices.Concat(make([]byte, 32), appendCompact(nil, 0), root[:], make([]byte, 32), []byte{0})
	n.add(&block{hash: blake2b.Sum256(header), header: header, state: genesis})
	return n, nil
}

func (n *Node) add(b *block) {
	n.blocks = append(n.blocks, b)
	n.byHash[b.hash] = b
	close(n.grown)
	n.grown = make(chan struct{})
}

func (n *Node) best() *block { return n.blocks[len(n.blocks)-1] }

// seen is the best block of the node that answers a call.
func (n *Node) seen() *block {
	last := len(n.blocks) - 1
	if n.late != nil {
		last = max(0, last-n.late())
	}
	return n.blocks[last]
}

// Number is the number of the best block.
func (n *Node) Number() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return uint64(n.best().number)
}

// Produce makes so many empty blocks.
func (n *Node) Produce(ctx context.Context, count int) error {
	for range count {
		n.mu.Lock()
		_, err := n.author(ctx, nil)
		n.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Refuse makes the pool ask before it takes an extrinsic: nil takes it. It stands
// for the checks that later runtimes make in the pool already.
func (n *Node) Refuse(ask func(extrinsic []byte) *Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = ask
}

// Storage reads a value of the best block.
func (n *Node) Storage(key []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.best().state[string(key)]
}

// submit puts an extrinsic through the pool's check and into a block of its own.
func (n *Node) submit(ctx context.Context, extrinsic []byte) (*block, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != nil {
		if r := n.refuse(extrinsic); r != nil {
			return nil, r
		}
	}
	if n.holdNext {
		n.holdNext, n.held = false, extrinsic
		n.cut()
		return nil, &Refusal{1002, "Verification Error", "held"} // nobody hears it
	}
	if held := n.held; held != nil {
		n.held = nil
		if _, err := n.author(ctx, held); err != nil {
			return nil, err
		}
	}
	best := n.best()
	const external = 2 // TransactionSource::External
	input := slices.Concat([]byte{external}, extrinsic, best.hash[:])
	raw, err := n.code.call(ctx, newState(best.state), "TaggedTransactionQueue_validate_transaction", input)
	if err != nil {
		return nil, &Refusal{1002, "Verification Error", err.Error()}
	}
	if len(raw) == 0 || raw[0] != 0 {
		return nil, invalid(raw)
	}
	b, err := n.author(ctx, extrinsic)
	if n.cutNext {
		n.cutNext = false
		n.cut()
	}
	return b, err
}

// invalid words the runtime's refusal as a node does.
func invalid(raw []byte) *Refusal {
	if len(raw) < 3 {
		return &Refusal{1002, "Verification Error", hex.EncodeToString(raw)}
	}
	class, kind := raw[1], raw[2]
	if class == 1 {
		return &Refusal{1011, "Unknown Transaction Validity", fmt.Sprintf("kind %d", kind)}
	}
	words := []string{
		"Transaction call is not expected",
		"Inability to pay some fees (e.g. account balance too low)",
		"Transaction will be valid in the future",
		"Transaction is outdated",
		"Transaction has a bad signature",
		"Transaction has an ancient birth block",
		"Transaction would exhaust the block limits",
		"Custom error: ",
		"A call was labelled as mandatory, but resulted in an Error.",
		"Transaction dispatch is mandatory; transactions must not be validated.",
		"Invalid signing address",
	}
	text := fmt.Sprintf("kind %d", kind)
	if int(kind) < len(words) {
		text = words[kind]
	}
	if kind == 7 && len(raw) > 3 {
		text += strconv.Itoa(int(raw[3]))
	}
	return &Refusal{1010, "Invalid Transaction", text}
}

// author makes the next block: what the runtime itself puts in front (the time),
// then the extrinsic, if any.
func (n *Node) author(ctx context.Context, extrinsic []byte) (*block, error) {
	parent, now := n.best(), n.clock.Add(n.slot)
	s := newState(parent.state)
	if _, err := n.code.call(ctx, s, "Core_initialize_block", opening(parent, now, n.slot)); err != nil {
		return nil, err
	}
	all, err := n.inherents(ctx, s, now)
	if err != nil {
		return nil, err
	}
	if extrinsic != nil {
		all = append(all, extrinsic)
	}
	for i, one := range all {
		raw, err := n.code.call(ctx, s, "BlockBuilder_apply_extrinsic", one)
		if err != nil {
			return nil, err
		}
		if len(raw) == 0 || raw[0] != 0 && i < len(all)-1 {
			return nil, fmt.Errorf("extrinsic %d does not fit into a block: %x", i, raw)
		}
		if raw[0] != 0 {
			return nil, invalid(raw) // its number is too high: a real node would let it wait
		}
	}
	header, err := n.code.call(ctx, s, "BlockBuilder_finalize_block", nil)
	if err != nil {
		return nil, err
	}
	b := &block{
		hash: blake2b.Sum256(header), number: parent.number + 1, header: header, parent: parent.hash,
		extrinsics: all, state: s.all(),
	}
	n.clock = now
	n.add(b)
	return b, nil
}

// opening is the header of a block that begins: no roots yet, and the digest that
// says in which slot its author made it.
func opening(parent *block, now time.Time, slotTime time.Duration) []byte {
	const preRuntime = 6
	slot := binary.LittleEndian.AppendUint64(nil, uint64(now.UnixMilli()/slotTime.Milliseconds()))
	digest := slices.Concat(appendCompact(nil, 1), []byte{preRuntime}, []byte("aura"), appendCompact(nil, len(slot)), slot)
	return slices.Concat(parent.hash[:], appendCompact(nil, int(parent.number)+1), make([]byte, 64), digest)
}

func (n *Node) inherents(ctx context.Context, s *state, now time.Time) ([][]byte, error) {
	stamp := binary.LittleEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	data := slices.Concat(appendCompact(nil, 1), []byte("timstap0"), appendCompact(nil, len(stamp)), stamp)
	raw, err := n.code.call(ctx, s, "BlockBuilder_inherent_extrinsics", data)
	if err != nil {
		return nil, err
	}
	count, at := readCompact(raw)
	out := [][]byte{}
	for range count {
		size, prefix := readCompact(raw[at:])
		if prefix == 0 || at+prefix+size > len(raw) {
			return nil, errors.New("the runtime's inherents have an unknown form")
		}
		out = append(out, raw[at:at+prefix+size])
		at += prefix + size
	}
	return out, nil
}
