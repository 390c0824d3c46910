package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completionLimit is what a person who pressed Tab waits for a server at most.
const completionLimit = time.Second

// completeAll tells the shell what may follow: the server's runs and projects,
// the words of a flag that has few, files for flags that name them, else nothing.
func completeAll(root *cobra.Command, io stdio) {
	words := map[string]string{
		"format": "jsonl csv parquet", "attempt": "all",
		"status": "running finished failed lost silent", "sort": "created name last status -created -name -last -status",
	}
	files := " spool data output out to from config wallet-path "
	for _, cmd := range root.Commands() {
		completeAll(cmd, io)
	}
	switch {
	case strings.HasSuffix(root.Use, " RUN"):
		root.ValidArgsFunction = completeNames(io, true)
	case strings.HasSuffix(root.Use, " [WORKSPACE/PROJECT]"):
		root.ValidArgsFunction = completeNames(io, false)
	case !strings.Contains(root.Use, " PATH"):
		root.ValidArgsFunction = cobra.NoFileCompletions
	}
	root.Flags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.FixedCompletions(strings.Fields(words[f.Name]), cobra.ShellCompDirectiveNoFileComp)
		if strings.Contains(files, " "+f.Name+" ") {
			return
		}
		// The one error is that it was done before: the flag is one of two commands.
		_ = root.RegisterFlagCompletionFunc(f.Name, complete)
	})
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
		if parts := strings.Split(begun, "/"); runs && len(parts) > 2 {
			project := url.PathEscape(parts[0]) + "/" + url.PathEscape(parts[1])
			found, err := namesOf(ctx, server, "/api/v1/projects/"+project+"/runs", "runs")
			if err != nil {
				return nil, none
			}
			return beginning(parts[0]+"/"+parts[1]+"/", found, begun), none
		}
		found, err := namesOf(ctx, server, "/api/v1/projects", "projects")
		if err != nil {
			return nil, none
		}
		if !runs {
			return beginning("", found, begun), none
		}
		for i := range found {
			found[i] += "/"
		}
		return beginning("", found, begun), none | cobra.ShellCompDirectiveNoSpace
	}
}

// namesOf reads the first page of a list of runs or projects.
func namesOf(ctx context.Context, server *client, path, field string) ([]string, error) {
	list, err := server.list(ctx, path, field, url.Values{}, maxPage)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, len(list.items))
	for _, item := range list.items {
		var one struct{ Name, Workspace, Project string }
		if err := json.Unmarshal(item, &one); err != nil {
			return nil, err
		}
		if field == "projects" {
			one.Name = one.Workspace + "/" + one.Project
		}
		out = append(out, printable(one.Name))
	}
	return out, nil
}

// beginning are the names that go on from what is typed.
func beginning(prefix string, names []string, begun string) []string {
	var out []string
	for _, name := range names {
		if strings.HasPrefix(prefix+name, begun) {
			out = append(out, prefix+name)
		}
	}
	return out
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
