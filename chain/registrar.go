package chain

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/substrate"
)

// Result says how a look at the registration ended.
type Result string

// The results.
const (
	Registered    Result = "registered"     // sent, and the chain took it
	AlreadyServed Result = "already_served" // the record was right
	RateLimited   Result = "rate_limited"   // the chain would refuse now; the next look tries again
	Refused       Result = "refused"        // by the chain
	Unreachable   Result = "unreachable"    // no node answered, or the outcome is unknown
	Failed        Result = "failed"         // anything else, such as no external address
)

// Results are all of them.
func Results() []Result {
	return []Result{Registered, AlreadyServed, RateLimited, Refused, Unreachable, Failed}
}

// Lifecycle is what a Registrar keeps registered.
type Lifecycle struct {
	Netuid int
	Port   int
	// Every is the time between two looks; 0 is a minute.
	Every time.Duration
	// Refresh serves a right record anew after so many blocks, so that its age
	// tells whether the node lives; 0 is 7200, a day.
	Refresh uint64
	// WaitForInclusion is enough; otherwise a registration waits for a final block.
	WaitForInclusion bool
}

// Status is where a Registrar stands.
type Status struct {
	Hotkey string `json:"hotkey"`
	Netuid int    `json:"netuid"`
	// Result of the last look, "" before the first.
	Result Result `json:"result"`
	// Error of the last look, "" when it went well.
	Error string `json:"error"`
	// Current says that the record was right at the last look that could tell.
	Current bool `json:"current"`
	// Info is the record as it was last seen.
	Info *PrometheusInfo `json:"info"`
	// Looked is when a look could last tell.
	Looked time.Time         `json:"looked"`
	Counts map[Result]uint64 `json:"counts"`
}

// Registrar keeps one endpoint registered for as long as a node runs.
type Registrar struct {
	subtensor *Subtensor
	wallet    *Wallet
	life      Lifecycle
	looking   chan struct{} // holds one token: who has it uses addresses
	addresses *addresses

	mu     sync.Mutex
	status Status
}

// Registrar makes the lifecycle of an endpoint. Nothing happens before
// InitPrometheus, SyncStatus or Run.
func (s *Subtensor) Registrar(w *Wallet, l Lifecycle) *Registrar {
	const day = 24 * time.Hour
	if l.Every == 0 {
		l.Every = time.Minute
	}
	if l.Refresh == 0 {
		l.Refresh = uint64(day / blockTime)
	}
	looking := make(chan struct{}, 1)
	looking <- struct{}{}
	return &Registrar{subtensor: s, wallet: w, life: l, looking: looking, addresses: &addresses{subtensor: s, pause: time.Minute}, status: Status{Hotkey: w.Hotkey(), Netuid: l.Netuid, Counts: map[Result]uint64{}}}
}

// InitPrometheus registers the endpoint when the node starts.
func (r *Registrar) InitPrometheus(ctx context.Context) error { return r.look(ctx) }

// SyncStatus looks at the record and registers again when its version is not this
// node's, when the address or port changed, or when it is due for a refresh. The
// rate limit is kept without asking the chain.
func (r *Registrar) SyncStatus(ctx context.Context) error { return r.look(ctx) }

func (r *Registrar) look(ctx context.Context) error {
	select {
	case <-r.looking:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { r.looking <- struct{}{} }()
	out, err := r.subtensor.extrinsic(ctx, r.wallet, Registration{
		Netuid: r.life.Netuid, Port: r.life.Port, Refresh: r.life.Refresh,
		WaitForInclusion: r.life.WaitForInclusion, WaitForFinalization: !r.life.WaitForInclusion,
	}, r.addresses)
	r.mu.Lock()
	defer r.mu.Unlock()
	result := resultOf(out, err)
	r.status.Result, r.status.Error = result, ""
	r.status.Counts[result]++
	if result != Unreachable && (result != Failed || out != nil) { // else it tells nothing of the record
		r.status.Current, r.status.Looked = result == Registered || result == AlreadyServed, r.subtensor.config.Now()
	}
	if err != nil {
		r.status.Error = FormatErrorMessage(err)
	}
	if out != nil && out.Info != nil {
		r.status.Info = out.Info
	}
	return err
}

func resultOf(out *Outcome, err error) Result {
	var limited *RateLimitError
	var refused *RefusedError
	var unknown *UnknownOutcomeError
	var broken *substrate.TransportError
	switch {
	case err == nil && out.AlreadyServed:
		return AlreadyServed
	case err == nil:
		return Registered
	case errors.As(err, &limited):
		return RateLimited
	case errors.As(err, &refused):
		return Refused
	case errors.As(err, &unknown), errors.As(err, &broken):
		return Unreachable
	}
	return Failed
}

// Run registers and then looks again and again until ctx ends. Failures are in
// Status and in the log; the next look tries again.
func (r *Registrar) Run(ctx context.Context) error {
	err := r.InitPrometheus(ctx)
	for {
		if r.subtensor.config.Sleep(ctx, r.pause(err)) != nil {
			return nil
		}
		err = r.SyncStatus(ctx)
	}
}

// pause is shorter where the rate limit ends sooner.
func (r *Registrar) pause(err error) time.Duration {
	var limited *RateLimitError
	if errors.As(err, &limited) {
		return min(r.life.Every, max(blocks(limited.Blocks), blockTime))
	}
	return r.life.Every
}

// Status is where the registration stands; the answer is the caller's own.
func (r *Registrar) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.status
	out.Counts = map[Result]uint64{}
	for result, n := range r.status.Counts {
		out.Counts[result] = n
	}
	return out
}
