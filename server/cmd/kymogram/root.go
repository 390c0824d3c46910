package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// usageError marks an error of the command line itself: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, io stdio) int {
	root := rootCommand(io)
	root.SetArgs(args)
	started := markStart(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var usage usageError
	isUsage := !*started || errors.As(err, &usage)
	printError(io, cmd, err, isUsage)
	if isUsage {
		return exitUsage
	}
	return exitFailed
}

// rootCommand lists every subcommand with its file: a new one is a line here.
func rootCommand(io stdio) *cobra.Command {
	root := &cobra.Command{
		Use:   "kymogram",
		Short: "Log, keep and see training runs",
		Long: `Log, keep and see training runs.

The exit code is 0 when all went well, 1 when the work failed, 2 when the command
line is wrong.

A RUN is an id, WORKSPACE/PROJECT/NAME, or less of it where that means one run only:
PROJECT/NAME, a name, or the display name that the page shows. A PROJECT alone is enough
where one workspace has it. What means several is refused with the list of them.

Completion of commands, flags, projects and runs in bash, which needs
its package bash-completion:
  source <(kymogram completion bash)     (kymogram completion --help: zsh, fish)`,
		Example: `  kymogram serve --data ~/kymogram     start a server and its page
  kymogram runs list                   what ran
  kymogram export my-run               its points, one JSON object a line
  kymogram doctor                      what is wrong, if anything`,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(io.in)
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.AddCommand(
		// The server's machine.
		serveCommand(io),   // serve.go, and node.go for its parts
		configCommand(io),  // config.go
		dataCommand(io),    // data.go, backup.go
		migrateCommand(io), // migrate.go
		keyCommand(io),     // key.go
		loginCommand(io),   // login.go
		logoutCommand(io),  // login.go
		whoamiCommand(io),  // login.go
		healthCommand(io),  // health.go
		// Programs' machines.
		agentCommand(io),    // agent.go, agentchain.go
		syncCommand(io),     // sync.go
		relayCommand(io),    // relay.go
		netstateCommand(io), // netstate.go
		spoolCommand(io),    // spool.go
		doctorCommand(io),   // doctor.go
		// Asking a server: connection.go says which, and as whom.
		projectsCommand(io),   // projects.go
		runsCommand(io),       // runs.go
		seriesCommand(io),     // series.go
		renderingsCommand(io), // renderings.go
		filesCommand(io),      // files.go
		topCommand(io),        // top.go
		logsCommand(io),       // logs.go
		mcpCommand(io),        // mcp.go
		exportCommand(io),     // export.go
		importCommand(io),     // import.go
		stateCommand(io),      // state.go
		viewCommand(io),       // view.go
		// Bittensor.
		chainCommand(io),   // chain.go
		scrapeCommand(io),  // scrape.go
		versionCommand(io), // version.go
	)
	addCompletion(root)
	completeAll(root, io)
	addVersion(root)
	return root
}

// arguments reads what a command takes from its line of usage, NAME [ARG], NAME ARG or
// NAME ARG…: what is shown and what is taken are one.
func arguments(use string) cobra.PositionalArgs {
	_, args, _ := strings.Cut(use, " ")
	least, most := 1, 1
	switch {
	case args == "" || strings.HasPrefix(args, "--"):
		least, most = 0, 0
	case strings.HasPrefix(args, "["):
		least = 0
	case strings.HasSuffix(args, "…"):
		most = math.MaxInt
	}
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return usagef("%s is missing", strings.TrimSuffix(args, "…"))
		case len(given) <= most:
			return nil
		case most > 0:
			return usagef("there is one argument, %s, not %d: quote a text with spaces", strings.Trim(args, "[]"), len(given))
		case cmd.HasSubCommands():
			return cobra.NoArgs(cmd, given) // the name of a command
		}
		for _, name := range []string{"data", "config", "spool"} {
			if cmd.Flags().Lookup(name) != nil {
				return usagef("%s takes no argument: name it with a flag, --%s %s", cmd.CommandPath(), name, given[0])
			}
		}
		return usagef("%s takes no argument, not %q", cmd.CommandPath(), given[0])
	}
}

// notANumber is what Go says of a flag's value.
var notANumber = regexp.MustCompile(`strconv\.Parse(Int|Float|Uint): .*`)

// flagError says in words what a flag's value must be.
func flagError(_ *cobra.Command, err error) error {
	if text := notANumber.ReplaceAllString(err.Error(), "it must be a number"); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// group fills in a command that does nothing but hold others.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(*cobra.Command, []string) error {
		return usagef("which one? see %s --help", cmd.CommandPath())
	}
	cmd.AddCommand(commands...)
	return cmd
}

// markStart wraps every command so that the flag it returns tells errors of the
// command line (before a command began) from failures of its work.
func markStart(root *cobra.Command) *bool {
	started := new(bool)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if inner := c.RunE; inner != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				*started = true
				return inner(cmd, args)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return started
}

func printError(io stdio, cmd *cobra.Command, err error, isUsage bool) {
	fmt.Fprintf(io.err, "kymogram: %v\n", err)
	var e *model.Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintf(io.err, "  %s\n", e.Hint)
	}
	if isUsage && cmd != nil {
		if names := meant(cmd, err); len(names) > 0 {
			fmt.Fprintf(io.err, "  did you mean %s?\n", strings.Join(names, " or "))
		}
		fmt.Fprintf(io.err, "  usage: %s; see %s --help\n", cmd.UseLine(), cmd.CommandPath())
	}
}
