package subnet

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/kymogram/kymogram/chain"
)

// The variables that stand for what a command line leaves out.
const (
	EndpointsEnv = "KYMOGRAM_CHAIN_ENDPOINTS"
	PasswordEnv  = "KYMOGRAM_WALLET_PASSWORD"
)

// Place is a subnet of a chain, as a person names it.
type Place struct {
	Endpoints  []string // none: those of the environment
	Netuid     int      // negative: none was named
	IP         string   // that others reach; empty: the services are asked
	IPServices []string
	// AllowPrivate registers an address that only this machine or its network reaches.
	AllowPrivate bool
}

// Config checks a place. Its errors are those of who named it.
func (p *Place) Config(env func(string) string) (chain.Config, error) {
	if len(p.Endpoints) == 0 && env(EndpointsEnv) != "" {
		p.Endpoints = strings.Split(env(EndpointsEnv), ",")
	}
	c := chain.Config{Endpoints: p.Endpoints, IPServices: p.IPServices, AllowPrivate: p.AllowPrivate}
	if len(p.Endpoints) == 0 {
		return c, fmt.Errorf("which chain? give --chain wss://HOST[:PORT] or set %s", EndpointsEnv)
	}
	if p.Netuid < 0 {
		return c, errors.New("which subnet? give --netuid N")
	}
	if p.IP != "" {
		var err error
		if c.ExternalIP, err = netip.ParseAddr(p.IP); err != nil {
			return c, fmt.Errorf("--ip is %q, it must be an IPv4 or IPv6 address", p.IP)
		}
	}
	return c, nil
}

// Password asks for the password of an encrypted hotkey: the environment, else a
// person at a terminal. It is nil where neither is there.
func Password(env func(string) string, in io.Reader, out io.Writer, hotkey string) func() (string, error) {
	if word := env(PasswordEnv); word != "" {
		return func() (string, error) { return word, nil }
	}
	terminal, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return nil
	}
	return func() (string, error) {
		fmt.Fprintf(out, "password of hotkey %s: ", hotkey)
		defer fmt.Fprintln(out)
		word, err := term.ReadPassword(int(terminal.Fd()))
		return string(word), err
	}
}

// Log is the log of a command: each step when it is verbose, else warnings only, since
// its own error says the rest.
func Log(w io.Writer, verbose bool) *slog.Logger {
	if verbose {
		return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(warnings{slog.NewTextHandler(w, nil)})
}
