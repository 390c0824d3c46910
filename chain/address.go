package chain

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// How the address of a node is watched. Services on the internet say it, and may be wrong
// or unreachable: on a host with IPv4 and IPv6 they say the one by which they were asked.
const (
	// askEvery leaves room for firstAsks and the early tries: 24 look-ups a day at most,
	// while nothing changes.
	askEvery  = 90 * time.Minute
	firstAsks = 4
	// An address is another once as many look-ups agree, of two services or more, within
	// agreeWithin.
	agreeing    = 3
	agreeWithin = 10 * time.Minute
	maxAsks     = 6
)

// early are the pauses between the first tries while no address is known.
func early() []time.Duration { return []time.Duration{time.Minute, 4 * time.Minute, 16 * time.Minute} }

// addresses follows the external address of a node. It never gives a known address up for
// a look-up that failed.
type addresses struct {
	subtensor *Subtensor
	pause     time.Duration // between the look-ups that must agree
	held      netip.Addr    // the zero Addr: none is known
	due       time.Time
	tries     int // without an address
	turn      int
	failure   error
}

// find is the configured address, else the one that the services agree on, else the one of
// the chain's record.
func (a *addresses) find(ctx context.Context, info *PrometheusInfo) (netip.Addr, error) {
	c := a.subtensor.config
	if c.ExternalIP.IsValid() {
		return c.ExternalIP.Unmap(), nil
	}
	if !a.held.IsValid() && info != nil {
		if addr, ok := info.Addr(); ok && (c.AllowPrivate || Public(addr)) {
			a.held = addr
		}
	}
	if c.Now().Before(a.due) {
		if !a.held.IsValid() {
			return a.held, a.failure
		}
		return a.held, nil
	}
	if !a.held.IsValid() {
		return a.first(ctx)
	}
	asked := a.compare(ctx)
	a.due = c.Now().Add(time.Duration(asked) * askEvery)
	return a.held, ctx.Err()
}

// first takes the first answer: there is nothing to lose yet.
func (a *addresses) first(ctx context.Context) (netip.Addr, error) {
	asks := 1
	if a.tries == 0 {
		asks = min(firstAsks, len(a.subtensor.config.IPServices))
	}
	var failures []error
	for range asks {
		addr, service, err := a.ask(ctx)
		if err == nil {
			a.held, a.due = addr, a.subtensor.config.Now().Add(askEvery)
			return addr, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", service, err))
	}
	pause := askEvery
	if a.tries < len(early()) {
		pause = early()[a.tries]
	}
	a.tries, a.due = a.tries+1, a.subtensor.config.Now().Add(pause)
	a.failure = noAddress(failures)
	return netip.Addr{}, a.failure
}

func noAddress(failures []error) error {
	return model.Errorf(model.CodeUnavailable, "cannot find this machine's external address: %v", errors.Join(failures...)).
		WithHint("give it with --ip ADDRESS, or name services with --ip-service URL")
}

// ask asks the service whose turn it is.
func (a *addresses) ask(ctx context.Context) (netip.Addr, string, error) {
	services := a.subtensor.config.IPServices
	if len(services) == 0 {
		return netip.Addr{}, "no service", errors.New("none is named")
	}
	service := services[a.turn%len(services)]
	a.turn++
	addr, err := a.subtensor.ask(ctx, service)
	return addr, service, err
}

// compare asks whether the held address is still the one, and changes it once enough
// look-ups agree on another. It says how many look-ups that took.
func (a *addresses) compare(ctx context.Context) (asked int) {
	log, began := a.subtensor.log, a.subtensor.config.Now()
	other, service, err := a.ask(ctx)
	if err != nil || other == a.held {
		log.Debug("asked for the external address", "service", service, "ip", other, "err", err)
		return 1
	}
	if len(a.subtensor.config.IPServices) < 2 {
		log.Warn("a service says another address; the record changes only when two services agree: name a second with --ip-service, or give --ip",
			"service", service, "says", other, "record", a.held)
		return 1
	}
	votes, services := 1, map[string]bool{service: true}
	for asked = 1; asked < maxAsks; {
		if a.subtensor.config.Sleep(ctx, a.pause) != nil {
			return asked
		}
		asked++
		addr, service, err := a.ask(ctx)
		switch {
		case a.subtensor.config.Now().Sub(began) > agreeWithin:
			return asked
		case err != nil && other.Is4() != a.held.Is4():
			return asked // what is asked over the one protocol says nothing of the other
		case err != nil:
			continue
		case addr != other:
			log.Info("the services do not agree on another address", "record", a.held, "one", other, "another", addr)
			return asked
		}
		votes, services[service] = votes+1, true
		if votes >= agreeing && len(services) >= 2 {
			log.Info("the external address changed", "from", a.held, "to", other)
			a.held = other
			return 1
		}
	}
	return asked
}
