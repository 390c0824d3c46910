package chain

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/substrate"
)

// blockTime is how often the chain makes a block.
const blockTime = 12 * time.Second

func blocks(n uint64) time.Duration { return time.Duration(min(n, 1<<30)) * blockTime }

// Config is what a user sets.
type Config struct {
	// Endpoints are WebSocket addresses of nodes of one chain (ws:// or wss://). The
	// first that answers is used, the next when it stops.
	Endpoints []string
	// ExternalIP is the address to register; the zero Addr asks IPServices.
	ExternalIP netip.Addr
	// IPServices answer a GET with the caller's address as text; nil is
	// DefaultIPServices.
	IPServices []string
	// AllowPrivate registers an address that is not Public; otherwise it is refused.
	AllowPrivate bool
	// Version is what to register, see VersionAsInt.
	Version uint32
	// Log takes what happens; nil drops it. Secrets are never logged.
	Log *slog.Logger
	// Now and HTTP are for tests; nil is the real thing.
	Now  func() time.Time
	HTTP *http.Client
	// Sleep waits between tries; nil is the real thing.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Subtensor is the chain, seen through its nodes (the seed's
// ComputeSubnetSubtensor). It is safe for concurrent use.
type Subtensor struct {
	config Config
	client *substrate.Client
	log    *slog.Logger
}

// Dial makes a Subtensor. It connects on the first call.
func Dial(c Config) (*Subtensor, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: serviceTimeout}
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.IPServices == nil {
		c.IPServices = DefaultIPServices()
	}
	client, err := substrate.New(c.Endpoints, substrate.Options{Now: c.Now, Log: c.Log, Sleep: c.Sleep})
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%v", err).
			WithHint("give --chain wss://HOST[:PORT], such as wss://entrypoint-finney.opentensor.ai:443")
	}
	return &Subtensor{c, client, c.Log}, nil
}

// Close ends the connection.
func (s *Subtensor) Close() { s.client.Close() }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
