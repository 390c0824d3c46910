package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/subnet"
)

// Where the chain commands look besides their flags.
const (
	chainEnv          = "KYMOGRAM_CHAIN_ENDPOINTS"
	walletPasswordEnv = "KYMOGRAM_WALLET_PASSWORD"
)

// chainFlags are what the chain commands and the agent share.
type chainFlags struct {
	endpoints  []string
	netuid     int
	wallet     string
	walletPath string
	ip         string
	ipServices []string
	announce   string
	verbose    bool
	json       bool
}

func (f *chainFlags) addChain(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.endpoints, "chain", nil, "WebSocket address of a node, ws:// or wss://; several are tried in turn ("+chainEnv+")")
	flags.IntVar(&f.netuid, "netuid", -1, "number of the subnet")
}

func (f *chainFlags) addWallet(flags *pflag.FlagSet) {
	flags.StringVar(&f.wallet, "wallet", "", "wallet that signs, NAME or NAME/HOTKEY; only its hotkey is read")
	flags.StringVar(&f.walletPath, "wallet-path", "", "folder of the wallets (default ~/.bittensor/wallets)")
}

func (f *chainFlags) addAddress(flags *pflag.FlagSet) {
	flags.StringVar(&f.ip, "ip", "", "address that others reach (default: ask the services)")
	flags.StringSliceVar(&f.ipServices, "ip-service", nil, "URL that answers with this machine's address (default "+strings.Join(chain.DefaultIPServices(), ",")+")")
	flags.StringVar(&f.announce, "announce", "", "version to register, MAJOR.MINOR.PATCH, kept as 100*MAJOR+10*MINOR+PATCH (default this program's)")
}

func (f *chainFlags) addOutput(flags *pflag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell each step on stderr")
}

// dial makes the chain of the flags; log nil is stderr.
func (f *chainFlags) dial(io stdio, log *slog.Logger) (*chain.Subtensor, error) {
	if len(f.endpoints) == 0 && io.env(chainEnv) != "" {
		f.endpoints = strings.Split(io.env(chainEnv), ",")
	}
	if len(f.endpoints) == 0 {
		return nil, usagef("which chain? give --chain wss://HOST[:PORT] or set %s", chainEnv)
	}
	if f.netuid < 0 {
		return nil, usagef("which subnet? give --netuid N")
	}
	if log == nil {
		// Without -v a command's own error says all.
		level := slog.LevelWarn
		if f.verbose {
			level = slog.LevelDebug
		}
		log = slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: level}))
		if !f.verbose {
			log = subnet.Warnings(log)
		}
	}
	config := chain.Config{Endpoints: f.endpoints, IPServices: f.ipServices, Log: log}
	var err error
	if f.ip != "" {
		if config.ExternalIP, err = netip.ParseAddr(f.ip); err != nil {
			return nil, usagef("--ip is %q, it must be an IPv4 or IPv6 address", f.ip)
		}
	}
	if config.Version, err = f.version(); err != nil {
		return nil, err
	}
	return chain.Dial(config)
}

// version is what is announced: the flag's, else this program's.
func (f *chainFlags) version() (uint32, error) {
	return chain.VersionAsInt(cmp.Or(f.announce, version))
}

// openWallet reads the hotkey. An encrypted one takes its password from the
// environment, else from the terminal.
func (f *chainFlags) openWallet(io stdio) (*chain.Wallet, error) {
	if f.wallet == "" {
		return nil, usagef("who signs? give --wallet NAME/HOTKEY")
	}
	var password func() (string, error)
	if word := io.env(walletPasswordEnv); word != "" {
		password = func() (string, error) { return word, nil }
	} else if in, ok := io.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		password = func() (string, error) {
			fmt.Fprintf(io.err, "password of hotkey %s: ", f.wallet)
			defer fmt.Fprintln(io.err)
			word, err := term.ReadPassword(int(in.Fd()))
			return string(word), err
		}
	}
	w, err := chain.OpenWallet(f.walletPath, f.wallet, password)
	if err != nil {
		return nil, err
	}
	for _, warning := range w.Warnings {
		fmt.Fprintf(io.err, "warning: %s\n", warning)
	}
	return w, nil
}

// open is dial and openWallet.
func (f *chainFlags) open(io stdio) (*chain.Subtensor, *chain.Wallet, error) {
	s, err := f.dial(io, nil)
	if err != nil {
		return nil, nil, err
	}
	w, err := f.openWallet(io)
	return s, w, err
}

func chainCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "chain",
		Short: "Register this node's metrics on the Bittensor chain, find those of others",
		Long: "Register this node's Prometheus endpoint on the Bittensor chain\n" +
			"(SubtensorModule.serve_prometheus, signed by the hotkey, without a fee) and list\n" +
			"the endpoints of a subnet. docs/chain.md tells more.",
		Example: `  kymogram chain serve --chain wss://entrypoint-finney.opentensor.ai:443 --netuid 27 --wallet default/miner1 --port 9101
  kymogram chain list --chain wss://entrypoint-finney.opentensor.ai:443 --netuid 27`,
	}, chainServeCommand(io), chainSubmitCommand(io), chainStatusCommand(io), chainListCommand(io), chainAxonCommand(io))
}

// chainWait are the flags that say how long to follow a registration.
type chainWait struct{ inclusion, finalization bool }

func (w *chainWait) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&w.inclusion, "wait-for-inclusion", false, "follow it into a block")
	flags.BoolVar(&w.finalization, "wait-for-finalization", true, "follow it into a final block")
}

func chainServeCommand(io stdio) *cobra.Command {
	var f chainFlags
	var wait chainWait
	var port int
	var refresh uint64
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Register this node's Prometheus endpoint",
		Long: "Register this node's Prometheus endpoint, unless the chain has it already. The\n" +
			"rate limit (50 blocks by default) is kept without asking the chain.",
		Example: `  kymogram chain serve --chain wss://HOST --netuid 27 --wallet default/miner1 --port 9101
  kymogram chain serve --chain ws://127.0.0.1:9944 --netuid 1 --wallet default --port 9101 --ip 203.0.113.7 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, w, err := f.open(io)
			if err != nil {
				return err
			}
			defer s.Close()
			out, err := s.PrometheusExtrinsic(cmd.Context(), w, chain.Registration{
				Netuid: f.netuid, Port: port, Refresh: refresh,
				WaitForInclusion: wait.inclusion, WaitForFinalization: wait.finalization,
			})
			if f.json {
				return errors.Join(printJSON(io.out, subnet.Served(out, err)), err)
			}
			if err == nil {
				subnet.PrintServed(io.out, w.Hotkey(), out)
			}
			return err
		},
	}
	f.addChain(cmd.Flags())
	f.addWallet(cmd.Flags())
	f.addAddress(cmd.Flags())
	f.addOutput(cmd.Flags())
	wait.addTo(cmd.Flags())
	cmd.Flags().IntVar(&port, "port", 0, "port where the metrics are served")
	cmd.Flags().Uint64Var(&refresh, "refresh", 0, "register anew what is that many blocks old though it is right; 0 never does")
	return cmd
}

func chainSubmitCommand(io stdio) *cobra.Command {
	var f chainFlags
	var wait chainWait
	var params string
	cmd := &cobra.Command{
		Use:   "submit",
		Short: "Submit serve_prometheus with exactly these arguments",
		Long: "Submit serve_prometheus with exactly these arguments: the chain alone judges\n" +
			"them. Broken connections are tried three times, 1 and 2 seconds apart.",
		Example: `  kymogram chain submit --chain wss://HOST --wallet default/miner1 \
    --params '{"netuid":27,"version":183,"ip":134744072,"port":9101,"ip_type":4}'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var p chain.PrometheusServeCallParams
			d := json.NewDecoder(strings.NewReader(params))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil {
				return usagef("--params is a JSON object of netuid, version, ip, port and ip_type: %w", err)
			}
			f.netuid = p.Netuid
			s, w, err := f.open(io)
			if err != nil {
				return err
			}
			defer s.Close()
			ok, err := s.DoServePrometheus(cmd.Context(), w, p, wait.inclusion, wait.finalization)
			if f.json {
				return errors.Join(printJSON(io.out, subnet.Submitted(ok, err)), err)
			}
			if err == nil {
				fmt.Fprintf(io.out, "served for %s\n", w.Hotkey())
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&f.endpoints, "chain", nil, "WebSocket address of a node, ws:// or wss:// ("+chainEnv+")")
	f.addWallet(cmd.Flags())
	f.addOutput(cmd.Flags())
	wait.addTo(cmd.Flags())
	cmd.Flags().StringVar(&params, "params", "", "JSON object of netuid, version, ip (a number), port and ip_type")
	return cmd
}

func chainStatusCommand(io stdio) *cobra.Command {
	var f chainFlags
	var hotkey string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the chain's record of one hotkey",
		Example: `  kymogram chain status --chain wss://HOST --netuid 27 --wallet default/miner1
  kymogram chain status --chain wss://HOST --netuid 27 --hotkey 5F44gkwuoAWbkM6SG1RHxnTmoVq9qS4XgtVdTBnutCe8KX5V --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.dial(io, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			if hotkey == "" {
				w, err := f.openWallet(io)
				if err != nil {
					return err
				}
				hotkey = w.Hotkey()
			}
			info, err := s.PrometheusInfo(cmd.Context(), f.netuid, hotkey)
			if err != nil {
				return err
			}
			if f.json {
				return printJSON(io.out, map[string]any{"netuid": f.netuid, "hotkey": hotkey, "info": info})
			}
			if info == nil {
				return model.Errorf(model.CodeNotFound, "%s has no record in subnet %d", hotkey, f.netuid).
					WithHint("kymogram chain serve makes one")
			}
			fmt.Fprintf(io.out, "%s in subnet %d: %s\n", hotkey, f.netuid, subnet.Record(info))
			return nil
		},
	}
	f.addChain(cmd.Flags())
	f.addWallet(cmd.Flags())
	f.addOutput(cmd.Flags())
	cmd.Flags().StringVar(&hotkey, "hotkey", "", "address of the hotkey, instead of --wallet")
	return cmd
}

func chainListCommand(io stdio) *cobra.Command {
	var f chainFlags
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the Prometheus endpoints of a subnet",
		Example: `  kymogram chain list --chain wss://HOST --netuid 27
  kymogram chain list --chain wss://HOST --netuid 27 --watch 1m --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.dial(io, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			show := func(l *chain.Listing) error {
				if f.json {
					return printJSON(io.out, l)
				}
				if err := subnet.PrintEndpoints(io.out, l); err != nil {
					return err
				}
				if l.Invalid > 0 {
					fmt.Fprintf(io.err, "%d records hold no address and are left out\n", l.Invalid)
				}
				printMore(io, len(l.Endpoints), "endpoints", "")
				return nil
			}
			if watch > 0 {
				return s.Watch(cmd.Context(), f.netuid, watch, show)
			}
			list, err := s.List(cmd.Context(), f.netuid)
			if err != nil {
				return err
			}
			return show(list)
		},
	}
	f.addChain(cmd.Flags())
	f.addOutput(cmd.Flags())
	cmd.Flags().DurationVar(&watch, "watch", 0, "look again and again, print when something changed")
	return cmd
}

func chainAxonCommand(io stdio) *cobra.Command {
	var f chainFlags
	var port uint16
	cmd := &cobra.Command{
		Use:     "axon",
		Short:   "Print what this node's axon says of itself, as JSON",
		Example: "  kymogram chain axon --wallet default/miner1 --port 8091 --ip 203.0.113.7",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Nothing is asked of a chain.
			f.endpoints, f.netuid = []string{"ws://127.0.0.1"}, 0
			s, w, err := f.open(io)
			if err != nil {
				return err
			}
			axon, err := s.Axon(cmd.Context(), w, port)
			if err != nil {
				return err
			}
			return printJSON(io.out, axon.Info())
		},
	}
	f.addWallet(cmd.Flags())
	f.addAddress(cmd.Flags())
	cmd.Flags().Uint16Var(&port, "port", 8091, "port of the axon")
	return cmd
}
