package main

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/table"
)

// completionLimit is what a person who pressed Tab waits for a server at most.
const completionLimit = time.Second

// completeAll says how many arguments a command takes, and tells the shell what may follow: the server's runs and projects,
// the words of a flag that has few, files for flags that name them, else nothing.
func completeAll(root *cobra.Command, io stdio) {
	words := map[string]string{
		"format": "jsonl csv parquet", "attempt": "all", "log-level": "debug info warn error", "tls": "self",
		"status": "running finished failed interrupted lost silent", "sort": "created name last status -created -name -last -status",
	}
	files := " spool data output out to from config wallet-path seen key-file "
	root.Args = arguments(root.Use)
	root.SetFlagErrorFunc(flagError)
	for _, cmd := range root.Commands() {
		completeAll(cmd, io)
	}
	switch {
	case strings.HasSuffix(root.Use, " RUN|FILE"), strings.HasSuffix(root.Use, " RUN|WORKSPACE/PROJECT"), strings.HasSuffix(root.Use, " RUN"):
		root.ValidArgsFunction = completeNames(io, true)
	case strings.HasSuffix(root.Use, " [WORKSPACE/PROJECT]"), strings.HasSuffix(root.Use, " WORKSPACE/PROJECT"):
		root.ValidArgsFunction = completeNames(io, false)
	case !strings.Contains(root.Use, " PATH"):
		root.ValidArgsFunction = cobra.NoFileCompletions
	}
	root.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.FixedCompletions(strings.Fields(words[f.Name]), cobra.ShellCompDirectiveNoFileComp)
		if f.Name == "scope" {
			complete = completeScopes
		}
		if strings.Contains(files, " "+f.Name+" ") {
			return
		}
		// The one error is that it was done before: the flag is one of two commands.
		_ = root.RegisterFlagCompletionFunc(f.Name, complete)
	})
}

// addCompletion adds cobra's command for the shells' scripts. A shell that it has no script for is
// an error of the command line.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find([]string{"completion"})
	if err == nil && cmd != root {
		group(cmd)
	}
}

// completeScopes offers the scopes that a comma-separated list does not have yet.
func completeScopes(_ *cobra.Command, _ []string, begun string) (out []string, _ cobra.ShellCompDirective) {
	given := strings.Split(begun, ",")
	before := given[:len(given)-1]
	for _, scope := range []catalog.Scope{catalog.ScopeIngest, catalog.ScopeRead, catalog.ScopeAdmin} {
		if !slices.Contains(before, string(scope)) {
			out = append(out, strings.Join(append(slices.Clone(before), string(scope)), ","))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeNames offers WORKSPACE/PROJECT, and behind it the project's newest runs.
func completeNames(io stdio, runs bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		c := connection{server: cmd.Flag("server").Value.String(), key: cmd.Flag("key").Value.String()}
		server, err := c.dial(io)
		if err != nil {
			return nil, none
		}
		client := read.Over(server)
		if parts := strings.Split(begun, "/"); runs && len(parts) > 2 {
			return matching(begun, client.Runs(ctx, parts[0], parts[1], read.RunFilter{}), none, func(r *read.Run) string { return parts[0] + "/" + parts[1] + "/" + r.Name })
		}
		end, next := "", none
		if runs {
			end, next = "/", none|cobra.ShellCompDirectiveNoSpace
		}
		return matching(begun, client.Projects(ctx), next, func(p read.Project) string { return p.Workspace + "/" + p.Project + end })
	}
}

// mostNames is one page of a list: more help nobody.
const mostNames = 1_000

// matching are the names of the first runs or projects of a list that go on from what
// is typed.
func matching[T any](begun string, list iter.Seq2[T, error], next cobra.ShellCompDirective, name func(T) string) (out []string, _ cobra.ShellCompDirective) {
	seen := 0
	for one, err := range list {
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if text := table.Printable(name(one)); strings.HasPrefix(text, begun) {
			out = append(out, text)
		}
		if seen++; seen == mostNames {
			break
		}
	}
	return out, next
}

// meant finds the flag or the command that somebody may have meant.
func meant(cmd *cobra.Command, err error) []string {
	var flag *pflag.NotExistError
	if errors.As(err, &flag) && flag.GetSpecifiedShortnames() == "" {
		all := &cobra.Command{SuggestionsMinimumDistance: 2}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				all.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
			}
		})
		return all.SuggestionsFor("--" + flag.GetSpecifiedName())
	}
	if rest, ok := strings.CutPrefix(err.Error(), `unknown command "`); ok {
		name, _, _ := strings.Cut(rest, `"`)
		cmd.SuggestionsMinimumDistance = 2
		return cmd.SuggestionsFor(name)
	}
	return nil
}
