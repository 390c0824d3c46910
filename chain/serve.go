package chain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/substrate"
)

// The retries of a registration, as the seed's decorator has them: only for broken
// connections, since a refusal repeats.
const (
	tries      = 3
	firstDelay = time.Second
	backoff    = 2
	maxDelay   = 4 * time.Second
)

// lookLimit ends every registration: the life of its extrinsic, and a minute for what is
// around it.
const lookLimit = substrate.Lifetime + time.Minute

// maxClashes is how many blocks another call with the same hotkey is waited for.
const maxClashes = 60

// PrometheusServeCallParams are the arguments of SubtensorModule.serve_prometheus,
// as given: what does not fit into the chain's fields is refused before anything is
// signed.
type PrometheusServeCallParams struct {
	Version int64    `json:"version"`
	IP      *big.Int `json:"ip"`
	Port    int      `json:"port"`
	IPType  int      `json:"ip_type"`
	Netuid  int      `json:"netuid"`
}

// NewCallParams makes the arguments that register an address.
func NewCallParams(netuid int, address netip.Addr, port int, version uint32) PrometheusServeCallParams {
	ip, kind := numberOf(address)
	return PrometheusServeCallParams{int64(version), ip, port, int(kind), netuid}
}

func (p PrometheusServeCallParams) check() error {
	if p.IP == nil || p.IP.Sign() < 0 || p.IP.BitLen() > 128 {
		return model.Errorf(model.CodeInvalid, "ip is %v: it must be an address as a number of 128 bits", p.IP)
	}
	return errors.Join(mustFit("version", p.Version, 32), mustFit("port", int64(p.Port), 16),
		mustFit("ip_type", int64(p.IPType), 8), mustFit("netuid", int64(p.Netuid), 16))
}

func (p PrometheusServeCallParams) args() map[string]any {
	return map[string]any{"netuid": p.Netuid, "version": p.Version, "ip": p.IP, "port": p.Port, "ip_type": p.IPType}
}

// matches reports whether a record is what these arguments would leave.
func (p PrometheusServeCallParams) matches(info *PrometheusInfo) bool {
	return info != nil && int64(info.Version) == p.Version && info.IP.Cmp(p.IP) == 0 &&
		int(info.Port) == p.Port && int(info.IPType) == p.IPType
}

// Registration is what PrometheusExtrinsic shall reach.
type Registration struct {
	Netuid int
	Port   int
	// IP is the address. The zero Addr is the configured one. Without one it is that of the
	// chain's record until three look-ups of two services agree on another. Without a
	// record it is the first that a service returns.
	IP netip.Addr
	// Version is what to register; 0 is the Config's.
	Version uint32
	// Refresh serves anew a record of that many blocks or more, though it is
	// right; 0 never does.
	Refresh uint64
	// Wait for a block that holds it, or for a final one. Without either, success
	// means only that a node took it.
	WaitForInclusion    bool
	WaitForFinalization bool
}

// Outcome is what a registration came to.
type Outcome struct {
	// AlreadyServed says that the chain's record was right and nothing was sent.
	AlreadyServed bool `json:"already_served"`
	// Info is the chain's record now; nil where nothing was waited for.
	Info *PrometheusInfo `json:"info"`
	// Extrinsic and Block say where it is; "" where that is not known.
	Extrinsic string `json:"extrinsic,omitempty"`
	Block     string `json:"block,omitempty"`
}

// ServePrometheus registers this node's Prometheus endpoint and reports whether it
// is registered; failures are logged. See PrometheusExtrinsic for the reasons.
func (s *Subtensor) ServePrometheus(ctx context.Context, w *Wallet, port, netuid int, waitForInclusion, waitForFinalization bool) bool {
	_, err := s.PrometheusExtrinsic(ctx, w, Registration{
		Netuid: netuid, Port: port, WaitForInclusion: waitForInclusion, WaitForFinalization: waitForFinalization,
	})
	return err == nil
}

// PrometheusExtrinsic registers an endpoint unless the chain's record is right
// already. It keeps the rate limit without asking: a *RateLimitError comes from
// the record alone. Refusals are *RefusedError.
func (s *Subtensor) PrometheusExtrinsic(ctx context.Context, w *Wallet, r Registration) (*Outcome, error) {
	return s.extrinsic(ctx, w, r, &addresses{subtensor: s, pause: time.Second})
}

func (s *Subtensor) extrinsic(ctx context.Context, w *Wallet, r Registration, a *addresses) (*Outcome, error) {
	var out *Outcome
	err := bounded(ctx, func(ctx context.Context) (err error) {
		out, err = s.register(ctx, w, r, a)
		return err
	})
	s.report(w, r, out, err)
	return out, err
}

// bounded ends an act in time: its outcome is unknown then.
func bounded(ctx context.Context, act func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	err := act(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &UnknownOutcomeError{fmt.Errorf("no node told the outcome within %s", lookLimit)}
	}
	return err
}

// register gives the record that it read with every error after that.
func (s *Subtensor) register(ctx context.Context, w *Wallet, r Registration, a *addresses) (*Outcome, error) {
	if r.Port < 1 || r.Port > 65535 {
		return nil, model.Errorf(model.CodeInvalid, "the port is %d: it must be from 1 to 65535", r.Port).
			WithHint("give the port where the metrics are served")
	}
	info, v, err := s.record(ctx, r.Netuid, w.Hotkey())
	if err != nil {
		return nil, shaped(err)
	}
	params, err := s.params(ctx, r, info, a)
	if err != nil {
		return &Outcome{Info: info}, err
	}
	done, err := s.before(ctx, v, w, r, params, info)
	if done != nil || err != nil {
		return done, shaped(err)
	}
	out, err := s.do(ctx, w, params, waitOf(r.WaitForInclusion, r.WaitForFinalization), &v)
	if err == nil && out.Block != "" && !params.matches(out.Info) {
		err = fmt.Errorf("block %s says that it took the registration, and its record is another: %+v", out.Block, out.Info)
	}
	return out, err
}

// before answers from the chain's state where nothing has to be sent; nil, nil where
// something has.
func (s *Subtensor) before(ctx context.Context, v view, w *Wallet, r Registration, p PrometheusServeCallParams, info *PrometheusInfo) (*Outcome, error) {
	if info == nil || info.Block == 0 {
		return nil, nil
	}
	uid, err := s.uid(ctx, v, r.Netuid, w)
	if err != nil || uid == nil {
		return nil, err // a record that a replaced neuron left: the chain refuses, and says so
	}
	age := v.head.Number - min(v.head.Number, info.Block)
	if p.matches(info) && (r.Refresh == 0 || age < r.Refresh) {
		return &Outcome{AlreadyServed: true, Info: info}, nil
	}
	limit, err := s.rateLimit(ctx, v, r.Netuid)
	if err != nil {
		return nil, err
	}
	if age+1 < limit { // it is in the next block at the earliest
		return &Outcome{Info: info}, &RateLimitError{limit - age - 1}
	}
	return nil, nil
}

// uid is the hotkey's place in a subnet, nil where it has none.
func (s *Subtensor) uid(ctx context.Context, v view, netuid int, w *Wallet) (any, error) {
	account := w.public
	return s.read(ctx, v, "Uids", netuid, account[:])
}

// params are the arguments for a registration.
func (s *Subtensor) params(ctx context.Context, r Registration, info *PrometheusInfo, a *addresses) (PrometheusServeCallParams, error) {
	none := PrometheusServeCallParams{}
	if r.Version == 0 {
		r.Version = s.config.Version
	}
	if !r.IP.IsValid() {
		ip, err := a.find(ctx, info)
		if err != nil {
			return none, err
		}
		r.IP = ip
	}
	if !s.config.AllowPrivate && !Public(r.IP) {
		return none, model.Errorf(model.CodeInvalid, "nobody can reach %s: it is not an address of the internet, and readers of the chain leave it out", r.IP).
			WithHint("give a public address with --ip, or force it with --allow-private")
	}
	return NewCallParams(r.Netuid, r.IP, r.Port, r.Version), nil
}

func waitOf(inclusion, finalization bool) substrate.Wait {
	switch {
	case finalization:
		return substrate.WaitFinalization
	case inclusion:
		return substrate.WaitInclusion
	}
	return substrate.WaitNone
}

// report logs as the seed describes: what succeeded at debug level, refusals in
// words, the unexpected with its stack.
func (s *Subtensor) report(w *Wallet, r Registration, out *Outcome, err error) {
	log := s.log.With("netuid", r.Netuid, "port", r.Port, "hotkey", w.Hotkey())
	var refused *RefusedError
	var limited *RateLimitError
	var unknown *UnknownOutcomeError
	var named *model.Error
	switch {
	case err == nil && out.AlreadyServed:
		log.Debug("prometheus already served")
	case err == nil:
		log.Debug("prometheus served", "block", out.Block, "extrinsic", out.Extrinsic)
	case errors.As(err, &refused), errors.As(err, &limited), errors.As(err, &named), errors.As(err, &unknown),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		log.Error("failed to serve prometheus", "error", FormatErrorMessage(err))
	default:
		log.Error("failed to serve prometheus", "error", FormatErrorMessage(err), "stack", string(debug.Stack()))
	}
}

// DoServePrometheus composes, signs and submits the call with exactly these
// arguments, and reports whether it succeeded. Broken connections are tried three
// times, 1 and 2 seconds apart; a refusal (*RefusedError) is not. Without a wait,
// true means only that a node took the call.
func (s *Subtensor) DoServePrometheus(ctx context.Context, w *Wallet, p PrometheusServeCallParams, waitForInclusion, waitForFinalization bool) (bool, error) {
	if err := p.check(); err != nil {
		return false, err
	}
	err := bounded(ctx, func(ctx context.Context) error {
		var before *view
		if v, err := s.view(ctx); err == nil { // else the first try says so
			before = &v
		}
		_, err := s.do(ctx, w, p, waitOf(waitForInclusion, waitForFinalization), before)
		return err
	})
	return err == nil, err
}

// do submits with retries. before is the chain before the first try, nil when unknown: the
// extrinsic's number is that of before, so that of two calls at one time at most one is
// included, whichever program makes them. The other waits for the next block, and finds
// itself registered or tries again.
func (s *Subtensor) do(ctx context.Context, w *Wallet, p PrometheusServeCallParams, wait substrate.Wait, before *view) (*Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	delay, sent, clashes, now := firstDelay, false, 0, before
	// landed is the record that an earlier try, or another program, made meanwhile.
	landed := func() *Outcome {
		info, v, err := s.record(ctx, p.Netuid, w.Hotkey())
		if err != nil {
			return nil
		}
		now = &v
		if before != nil && p.matches(info) && info.Block > before.head.Number {
			return &Outcome{Info: info}
		}
		return nil
	}
	for try := 1; ; {
		out, err := s.send(ctx, w, p, wait, now)
		if err == nil {
			return out, nil
		}
		var broken *substrate.TransportError
		lost := errors.As(err, &broken)
		sent = sent || lost && broken.Sent
		if !lost {
			if done := landed(); done != nil {
				return done, nil
			}
		}
		pause := time.Duration(0)
		switch {
		case lost && try < tries:
			s.log.Debug("the connection broke", "try", try, "err", err)
			try, pause, delay = try+1, delay, min(delay*backoff, maxDelay)
		case clash(err) && clashes < maxClashes:
			s.log.Debug("another extrinsic of this hotkey is under way", "err", err)
			clashes, pause = clashes+1, blockTime
		case lost && !sent:
			return nil, shaped(err)
		case !lost && out != nil && out.Block != "" && !refused(err):
			return out, &UnknownOutcomeError{err} // it is in a block that could not be read
		case !lost:
			return out, refusal(err)
		}
		if err := s.config.Sleep(ctx, pause); err != nil {
			return nil, err
		}
		if done := landed(); done != nil {
			return done, nil
		}
		if pause == 0 {
			return nil, &UnknownOutcomeError{shaped(err)}
		}
	}
}

// send submits once, and reads the record that the block left.
func (s *Subtensor) send(ctx context.Context, w *Wallet, p PrometheusServeCallParams, wait substrate.Wait, now *view) (*Outcome, error) {
	one := substrate.Submission{Pallet: pallet, Call: "serve_prometheus", Args: p.args(), Wait: wait}
	if now != nil {
		key, err := now.runtime.Metadata.StorageKey(pallet, "Prometheus", p.Netuid, w.public[:])
		if err != nil {
			return nil, err
		}
		one.At, one.Reads = &now.head.Hash, [][]byte{key}
	}
	receipt, err := s.client.Send(ctx, w.account(), one)
	out := outcome(receipt)
	if err != nil || len(receipt.Values) == 0 {
		return out, err
	}
	value, err := now.runtime.Metadata.StorageValue(pallet, "Prometheus", receipt.Values[0])
	if err == nil && value != nil {
		out.Info, err = readInfo(value)
	}
	return out, err
}

// refused reports whether the chain is the reason of an error.
func refused(err error) bool {
	var out *RefusedError
	return errors.As(refusal(err), &out)
}

// clash reports whether the pool prefers another extrinsic of the same hotkey, or one that
// is already in a block that this node does not have yet.
func clash(err error) bool {
	var pool *substrate.PoolError
	if !errors.As(err, &pool) {
		return false
	}
	switch pool.Kind {
	case "Stale", "Future", "LowPriority", "AlreadyImported", "AncientBirthBlock":
		return true
	case "Invalid", "Usurped", "Dropped":
		return pool.Late
	}
	return false
}

func outcome(receipt *substrate.Receipt) *Outcome {
	if receipt == nil {
		return nil
	}
	out := &Outcome{Extrinsic: receipt.Extrinsic.String()}
	if receipt.Block != nil {
		out.Block = receipt.Block.String()
	}
	return out
}
