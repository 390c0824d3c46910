package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/server/internal/subnet"
)

// chainFlags are what the chain commands and the agent share.
type chainFlags struct {
	subnet.Place
	wallet     string
	walletPath string
	announce   string
	verbose    bool
	json       bool
}

func (f *chainFlags) addChain(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Endpoints, "chain", nil, "WebSocket address of a node, ws:// or wss://; several are tried in turn ("+subnet.EndpointsEnv+")")
	flags.IntVar(&f.Netuid, "netuid", -1, "number of the subnet")
}

func (f *chainFlags) addWallet(flags *pflag.FlagSet) {
	flags.StringVar(&f.wallet, "wallet", "", "wallet that signs, NAME or NAME/HOTKEY; only its hotkey is read")
	flags.StringVar(&f.walletPath, "wallet-path", "", "folder of the wallets (default ~/.bittensor/wallets)")
}

func (f *chainFlags) addAddress(flags *pflag.FlagSet) {
	flags.StringVar(&f.IP, "ip", "", "address that others reach (default: ask the services)")
	flags.StringSliceVar(&f.IPServices, "ip-service", nil, "URL that answers with this machine's address (default "+strings.Join(chain.DefaultIPServices(), ",")+")")
	flags.BoolVar(&f.AllowPrivate, "allow-private", false, "register an address that only this machine or its network reaches")
	flags.StringVar(&f.announce, "announce", "", "version to register, MAJOR.MINOR.PATCH, kept as 100*MAJOR+10*MINOR+PATCH (default this program's)")
}

func (f *chainFlags) addOutput(flags *pflag.FlagSet) {
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "tell each step on stderr")
}

// dial makes the chain of the flags; log nil is stderr.
func (f *chainFlags) dial(io stdio, log *slog.Logger) (*chain.Subtensor, error) {
	config, err := f.Config(io.env)
	if err != nil {
		return nil, usageError{err}
	}
	if config.Log = log; log == nil {
		config.Log = subnet.Log(io.err, f.verbose)
	}
	if config.Version, err = chain.VersionAsInt(cmp.Or(f.announce, version)); err != nil {
		return nil, err
	}
	return chain.Dial(config)
}

// openWallet reads the hotkey.
func (f *chainFlags) openWallet(io stdio) (*chain.Wallet, error) {
	if f.wallet == "" {
		return nil, usagef("who signs? give --wallet NAME/HOTKEY")
	}
	w, err := chain.OpenWallet(f.walletPath, f.wallet, subnet.Password(io.env, io.in, io.err, f.wallet))
	if err != nil {
		return nil, err
	}
	for _, warning := range w.Warnings {
		fmt.Fprintf(io.err, "warning: %s\n", warning)
	}
	return w, nil
}

// openPublic reads the public half of the hotkey.
func (f *chainFlags) openPublic() (*chain.Wallet, error) {
	if f.wallet == "" {
		return nil, usagef("whose? give --wallet NAME/HOTKEY")
	}
	return chain.OpenPublicWallet(f.walletPath, f.wallet)
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
  kymogram chain serve --chain ws://127.0.0.1:9944 --netuid 1 --wallet default --port 9101 --ip 2606:4700::1111 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, w, err := f.open(io)
			if err != nil {
				return err
			}
			defer s.Close()
			out, err := s.PrometheusExtrinsic(cmd.Context(), w, chain.Registration{
				Netuid: f.Netuid, Port: port, Refresh: refresh,
				WaitForInclusion: wait.inclusion, WaitForFinalization: wait.finalization,
			})
			return tell(io, f.json, subnet.Served(w.Hotkey(), out, err), nil)
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
			f.Netuid = p.Netuid
			s, w, err := f.open(io)
			if err != nil {
				return err
			}
			defer s.Close()
			_, err = s.DoServePrometheus(cmd.Context(), w, p, wait.inclusion, wait.finalization)
			return tell(io, f.json, subnet.Served(w.Hotkey(), nil, err), nil)
		},
	}
	cmd.Flags().StringSliceVar(&f.Endpoints, "chain", nil, "WebSocket address of a node, ws:// or wss:// ("+subnet.EndpointsEnv+")")
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
				w, err := f.openPublic()
				if err != nil {
					return err
				}
				hotkey = w.Hotkey()
			}
			info, err := s.PrometheusInfo(cmd.Context(), f.Netuid, hotkey)
			return tell(io, f.json, subnet.Record{Hotkey: hotkey, Info: info, Netuid: f.Netuid}, err)
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
				return s.Watch(cmd.Context(), f.Netuid, watch, show)
			}
			list, err := s.List(cmd.Context(), f.Netuid)
			if err != nil {
				return err
			}
			return show(list)
		},
	}
	f.addChain(cmd.Flags())
	f.addOutput(cmd.Flags())
	cmd.Flags().Var(duration.Var(&watch), "watch", "look again and again, print when something changed; 0 looks once")
	return cmd
}

func chainAxonCommand(io stdio) *cobra.Command {
	var f chainFlags
	var port uint16
	cmd := &cobra.Command{
		Use:     "axon",
		Short:   "Print what this node's axon answers about itself, as JSON",
		Example: "  kymogram chain axon --wallet default/miner1 --port 8091 --ip 8.8.8.8",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Nothing is asked of a chain.
			f.Endpoints, f.Netuid = []string{"ws://127.0.0.1"}, 0
			s, err := f.dial(io, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			w, err := f.openPublic()
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
