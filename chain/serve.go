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
	// IP is the address; the zero Addr is Subtensor.ExternalIP.
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
	out, err := s.register(ctx, w, r)
	s.report(w, r, out, err)
	return out, err
}

func (s *Subtensor) register(ctx context.Context, w *Wallet, r Registration) (*Outcome, error) {
	params, err := s.params(ctx, r)
	if err != nil {
		return nil, err
	}
	info, v, err := s.record(ctx, r.Netuid, w.Hotkey())
	if err != nil {
		return nil, shaped(err)
	}
	done, err := s.before(ctx, v, w, r, params, info)
	if done != nil || err != nil {
		return done, shaped(err)
	}
	out, err := s.do(ctx, w, params, waitOf(r.WaitForInclusion, r.WaitForFinalization), v.head.Number)
	if err != nil {
		return nil, err
	}
	return out, s.confirm(ctx, w, params, out)
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
func (s *Subtensor) params(ctx context.Context, r Registration) (PrometheusServeCallParams, error) {
	none := PrometheusServeCallParams{}
	if r.Port < 1 || r.Port > 65535 {
		return none, model.Errorf(model.CodeInvalid, "the port is %d: it must be from 1 to 65535", r.Port).
			WithHint("give the port where the metrics are served")
	}
	if r.Version == 0 {
		r.Version = s.config.Version
	}
	if !r.IP.IsValid() {
		ip, err := s.ExternalIP(ctx)
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

// confirm reads back what a block was said to hold.
func (s *Subtensor) confirm(ctx context.Context, w *Wallet, p PrometheusServeCallParams, out *Outcome) error {
	if out.Block == "" && out.Info == nil {
		return nil // nothing was waited for
	}
	info, _, err := s.record(ctx, p.Netuid, w.Hotkey())
	if err != nil {
		return shaped(err)
	}
	out.Info = info
	if !p.matches(info) {
		return fmt.Errorf("the chain says that it took the registration, and its record is another: %+v", info)
	}
	return nil
}

// report logs as the seed describes: what succeeded at debug level, refusals in
// words, the unexpected with its stack.
func (s *Subtensor) report(w *Wallet, r Registration, out *Outcome, err error) {
	log := s.log.With("netuid", r.Netuid, "port", r.Port, "hotkey", w.Hotkey())
	var refused *RefusedError
	var limited *RateLimitError
	var named *model.Error
	switch {
	case err == nil && out.AlreadyServed:
		log.Debug("prometheus already served")
	case err == nil:
		log.Debug("prometheus served", "block", out.Block, "extrinsic", out.Extrinsic)
	case errors.As(err, &refused), errors.As(err, &limited), errors.As(err, &named),
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
	var since uint64
	if v, err := s.view(ctx); err == nil { // else the first try says so
		since = v.head.Number
	}
	_, err := s.do(ctx, w, p, waitOf(waitForInclusion, waitForFinalization), since)
	return err == nil, err
}

// do submits with retries. since is a block before the first try, 0 when unknown.
func (s *Subtensor) do(ctx context.Context, w *Wallet, p PrometheusServeCallParams, wait substrate.Wait, since uint64) (*Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	delay, sent := firstDelay, false
	for try := 1; ; try++ {
		receipt, err := s.client.Submit(ctx, w.account(), pallet, "serve_prometheus", p.args(), wait)
		var broken *substrate.TransportError
		again := errors.As(err, &broken)
		sent = sent || again && broken.Sent
		if err == nil || try == 1 && !again {
			return outcome(receipt), refusal(err)
		}
		if again && try < tries {
			s.log.Debug("the connection broke", "try", try, "err", err)
			if err := s.config.Sleep(ctx, delay); err != nil {
				return nil, err
			}
			delay = min(delay*backoff, maxDelay)
		}
		if try == tries && !sent {
			return nil, shaped(err)
		}
		// An earlier one may have got through: then the chain refuses the next.
		if info := s.landed(ctx, w, p, since); info != nil {
			return &Outcome{Info: info}, nil
		}
		if !again {
			return outcome(receipt), refusal(err)
		}
		if try == tries {
			return nil, &UnknownOutcomeError{shaped(err)}
		}
	}
}

// landed is the chain's record if a call with these arguments made it since a block.
func (s *Subtensor) landed(ctx context.Context, w *Wallet, p PrometheusServeCallParams, since uint64) *PrometheusInfo {
	info, _, err := s.record(ctx, p.Netuid, w.Hotkey())
	if err != nil || !p.matches(info) || since == 0 || info.Block <= since {
		return nil
	}
	return info
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
