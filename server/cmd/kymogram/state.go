package main

import (
	"context"
	"errors"
	goio "io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/records"
)

func stateCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "state",
		Short: "Show, check and export signed state records, and watch their log",
		Long: `State records are signed by the hotkeys of a subnet. These commands check them
against the signatures and trust no server: docs/state.md says how.`,
	}, stateShowCommand(io), stateHistoryCommand(io), stateVerifyCommand(io), stateExportCommand(io),
		stateHeadCommand(io), stateProveCommand(io), stateConsistencyCommand(io), stateAuditCommand(io))
}

// stateFlags are what the state commands share.
type stateFlags struct {
	connection
	netuid int
}

func (f *stateFlags) addTo(cmd *cobra.Command) {
	f.connection.addTo(cmd)
	cmd.Flags().IntVar(&f.netuid, "netuid", -1, "refuse records of another subnet")
}

func (f *stateFlags) options() records.Options {
	o := records.Options{Now: time.Now}
	if f.netuid >= 0 {
		netuid := uint16(f.netuid)
		o.Netuid = &netuid
	}
	return o
}

func (f *stateFlags) dial(io stdio) (records.Server, error) {
	if f.netuid > 65535 {
		return records.Server{}, usagef("--netuid is %d, it must be from 0 to 65535", f.netuid)
	}
	client, err := f.connection.dial(io)
	return records.Server{Client: client}, err
}

// open finds the run of a command's argument.
func (f *stateFlags) open(ctx context.Context, io stdio, ref string) (records.Server, *records.Run, error) {
	server, err := f.dial(io)
	if err != nil {
		return server, nil, err
	}
	run, err := server.Run(ctx, ref)
	return server, run, err
}

// terminal is where a command tells what it found.
func (f *stateFlags) terminal(io stdio) records.Terminal {
	return records.Terminal{Out: io.out, Err: io.err, JSON: f.json, Colour: io.colour()}
}

func stateShowCommand(io stdio) *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "show RUN|WORKSPACE/PROJECT",
		Short: "Judge the newest record of a run, or of every run of a project",
		Long: `Judge the newest record of a run, or of every run of a project. A verdict is one
word (verified, stale, broken, shared_key, equivocated) with its reason.`,
		Example: `  kymogram state show neuralinternet/opencompute
  kymogram state show neuralinternet/opencompute/0djlnjjs --netuid 27 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := f.dial(io)
			if err != nil {
				return err
			}
			if strings.Count(args[0], "/") < 2 {
				workspace, project, err := server.Client.Project(cmd.Context(), args[0])
				if err == nil {
					return f.terminal(io).ShowProject(cmd.Context(), server, workspace, project, f.options())
				}
				if code := model.CodeOf(err); code != model.CodeNotFound && code != model.CodeInvalid {
					return err
				}
			}
			server, run, err := f.open(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			return f.terminal(io).ShowRun(cmd.Context(), server, run, f.options())
		},
	}
	f.addTo(cmd)
	return cmd
}

func stateHistoryCommand(io stdio) *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:     "history RUN",
		Short:   "List every record of a run, by sequence",
		Example: `  kymogram state history neuralinternet/opencompute/0djlnjjs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, run, err := f.open(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			return f.terminal(io).History(cmd.Context(), server, run)
		},
	}
	f.addTo(cmd)
	return cmd
}

func stateVerifyCommand(io stdio) *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "verify RUN|FILE",
		Short: "Check every signature and link of a run's history, or a file of evidence",
		Long: `Check every signature and link of a run's history, or a file of evidence. A file
is a record, an export, a proof of two records with one sequence, a tree head, an
inclusion or a split: it is checked without any server. The exit status is 1 when
something does not hold, when a record that stands alone may not be trusted now, or
when a signer or a server is caught. A history may end with a record that has expired.`,
		Example: `  kymogram state verify neuralinternet/opencompute/0djlnjjs
  kymogram state verify records.jsonl
  kymogram state verify equivocation.json --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err == nil {
				return f.terminal(io).VerifyFile(cmd.Context(), args[0], f.options())
			}
			server, run, err := f.open(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			return f.terminal(io).VerifyRun(cmd.Context(), server, run, f.options())
		},
	}
	f.addTo(cmd)
	return cmd
}

func stateExportCommand(io stdio) *cobra.Command {
	var f stateFlags
	var output string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write every record of a run as JSON lines, for others to verify",
		Example: `  kymogram state export neuralinternet/opencompute/0djlnjjs --output records.jsonl
  kymogram state verify records.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, run, err := f.open(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			return toFile(io, output, func(w goio.Writer) error { return f.terminal(io).Export(cmd.Context(), server, run, w) })
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&output, "output", "", "the file to make (default: stdout)")
	return cmd
}

// toFile writes to a new file, or to stdout when none is named.
func toFile(io stdio, path string, write func(goio.Writer) error) error {
	if path == "" || path == "-" {
		return write(io.out)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usagef("%s exists: name another file with --output", path)
	}
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// logOf is the Merkle log of WORKSPACE/PROJECT.
func (f *stateFlags) logOf(ctx context.Context, io stdio, name string) (records.Log, error) {
	server, err := f.dial(io)
	if err != nil {
		return records.Log{}, err
	}
	workspace, project, err := splitProject(ctx, server.Client, name)
	return records.Log{Server: server, Workspace: workspace, Project: project}, err
}

func stateHeadCommand(io stdio) *cobra.Command {
	var f stateFlags
	var w chainFlags
	var seen string
	cmd := &cobra.Command{
		Use:   "head WORKSPACE/PROJECT",
		Short: "Show the signed head of a project's log; with --wallet cosign it",
		Long: `Show the signed head of a project's Merkle log. With --seen the head must continue
the one in the file, which is then replaced. With --wallet the head is cosigned after
that: the hotkey is a witness that the log was not rewritten since.`,
		Example: `  kymogram state head neuralinternet/opencompute
  kymogram state head neuralinternet/opencompute --seen head.json --wallet default/validator1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.wallet != "" && seen == "" {
				return usagef("a witness needs --seen FILE: it signs only what continues the head in that file")
			}
			log, err := f.logOf(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			head, err := log.Follow(cmd.Context(), seen)
			if err == nil && w.wallet != "" {
				key, err := w.openWallet(io)
				if err != nil {
					return err
				}
				if err := log.Cosign(cmd.Context(), head, key); err != nil {
					return err
				}
			}
			return f.terminal(io).Head("", head, err)
		},
	}
	f.addTo(cmd)
	w.addWallet(cmd.Flags())
	cmd.Flags().StringVar(&seen, "seen", "", "file with the head that was seen last")
	return cmd
}

func stateProveCommand(io stdio) *cobra.Command {
	var f stateFlags
	var output string
	cmd := &cobra.Command{
		Use:   "prove RUN",
		Short: "Write the proof that a run's newest record is in the project's log",
		Long: `Write the proof that a run's newest record is in the project's log. Keep it: with
state consistency --seen it catches a server that shows another record at this place.`,
		Example: `  kymogram state prove neuralinternet/opencompute/0djlnjjs --output proof.json
  kymogram state verify proof.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, run, err := f.open(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			proof, err := server.Prove(cmd.Context(), run)
			if err != nil {
				return err
			}
			return toFile(io, output, func(w goio.Writer) error { return printJSON(w, proof) })
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&output, "output", "", "the file to make (default: stdout)")
	return cmd
}

func stateConsistencyCommand(io stdio) *cobra.Command {
	var f stateFlags
	var seen string
	cmd := &cobra.Command{
		Use:   "consistency WORKSPACE/PROJECT",
		Short: "Check that the log continues a head or a proof that was seen before",
		Long: `Check that the log continues a head or a proof that was seen before. A server that
shows two histories is caught: the two heads are printed as JSON, for others to verify,
and the exit status is 1.`,
		Example: `  kymogram state consistency neuralinternet/opencompute --seen head.json
  kymogram state consistency neuralinternet/opencompute --seen proof.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if seen == "" {
				return usagef("give --seen FILE: a head or a proof of before")
			}
			log, err := f.logOf(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			head, err := log.Compare(cmd.Context(), seen)
			return f.terminal(io).Head("the log continues what "+seen+" holds\n", head, err)
		},
	}
	f.addTo(cmd)
	cmd.Flags().StringVar(&seen, "seen", "", "file with a head or a proof of before")
	return cmd
}

func stateAuditCommand(io stdio) *cobra.Command {
	var f stateFlags
	var seen string
	var again bool
	cmd := &cobra.Command{
		Use:   "audit WORKSPACE/PROJECT",
		Short: "Check that the server shows the newest record of every run in the log",
		Long: `Read the leaves of a project's log, check that they make its signed head, and check
that the server shows the newest record of every run in it. A run that is hidden or
rolled back is named, as is a record that is changed or in no log, and the exit status
is 1. With --seen only what came since the last audit is read, and a log that does not
continue it is caught; --again reads every leaf all the same.`,
		Example: `  kymogram state audit neuralinternet/opencompute
  kymogram state audit neuralinternet/opencompute --seen audit.json --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			log, err := f.logOf(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			return f.terminal(io).Audit(cmd.Context(), log, seen, again)
		},
	}
	f.connection.addTo(cmd)
	cmd.Flags().StringVar(&seen, "seen", "", "file with the audit before; replaced (default: read all, keep nothing)")
	cmd.Flags().BoolVar(&again, "again", false, "with --seen: read every leaf again, not only those since")
	return cmd
}
