package main

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// agentChain keeps the agent's endpoint registered on the chain.
type agentChain struct {
	chainFlags
	port    int
	every   time.Duration
	refresh uint64
}

func (a *agentChain) addTo(flags *pflag.FlagSet) {
	a.addChain(flags)
	a.addWallet(flags)
	a.addAddress(flags)
	flags.IntVar(&a.port, "chain-port", 0, "port to register, where others reach --metrics under another one")
	a.every = time.Minute
	flags.Var(duration.Var(&a.every), "chain-every", "time between two looks at the chain's record")
	flags.Uint64Var(&a.refresh, "chain-refresh", 0, "register anew after so many blocks; 0 is 7200, a day")
}

// wanted reports whether the agent registers; the environment alone does not make
// it.
func (a *agentChain) wanted() bool { return len(a.Endpoints) > 0 || a.Netuid >= 0 || a.wallet != "" }

func (a *agentChain) check(metrics string) error {
	switch {
	case !a.wanted():
		return nil
	case metrics == "":
		return usagef("--chain registers the endpoint of --metrics HOST:PORT: give that too")
	case a.Netuid < 0:
		return usagef("which subnet? give --netuid N")
	case a.wallet == "":
		return usagef("who signs? give --wallet NAME/HOTKEY")
	case a.every < time.Second:
		return usagef("--chain-every is %s, it must be a second or more", a.every)
	case a.port < 0 || a.port > 65535:
		return usagef("--chain-port is %d, it must be from 1 to 65535", a.port)
	}
	if ip, err := netip.ParseAddr(a.IP); err == nil && !a.AllowPrivate && !chain.Public(ip) {
		return usagef("nobody can reach --ip %s: it is not an address of the internet. Give a public one, or force it with --allow-private", ip)
	}
	return nil
}

// parts is the registrar, if one is wanted. A wallet that cannot be read ends the
// agent at once; a chain that does not answer is tried again.
func (a *agentChain) parts(io stdio, log *slog.Logger, listener net.Listener) ([]expose.Part, error) {
	if !a.wanted() {
		return nil, nil
	}
	bound, ok := listener.Addr().(*net.TCPAddr)
	if at := bound.AddrPort().Addr(); ok && !a.AllowPrivate && (at.Unmap().IsLoopback() || at.Unmap().IsLinkLocalUnicast()) {
		return nil, model.Errorf(model.CodeInvalid, "nobody else can reach the metrics at %s, so the chain must not name them", bound).
			WithHint("listen on an address that others reach, such as --metrics 0.0.0.0:%d, or force it with --allow-private", bound.Port)
	}
	s, err := a.dial(io, log)
	if err != nil {
		return nil, err
	}
	w, err := a.openWallet(io)
	if err != nil {
		return nil, err
	}
	port := a.port
	if ok && port == 0 {
		port = bound.Port
	}
	log.Info("registers its endpoint", "hotkey", w, "netuid", a.Netuid, "port", port)
	life := chain.Lifecycle{Netuid: a.Netuid, Port: port, Every: a.every, Refresh: a.refresh}
	return []expose.Part{s.Registrar(w, life)}, nil
}
