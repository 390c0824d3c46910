package main

import (
	"encoding/json"
	"fmt"
	goio "io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/remote"
)

// listFlags are the flags of a command that asks for a list.
type listFlags struct {
	connection
	limit int
	words map[string]*string // by the API's parameter
	marks map[string]*bool
}

func (f *listFlags) addTo(cmd *cobra.Command) {
	f.connection.addTo(cmd)
	f.words, f.marks = map[string]*string{}, map[string]*bool{}
	cmd.Flags().IntVar(&f.limit, "limit", 0, "at most so many (default all)")
}

// query is what the flags select.
func (f *listFlags) query() (url.Values, error) {
	query := url.Values{}
	for parameter, word := range f.words {
		if *word != "" {
			query.Set(parameter, *word)
		}
	}
	for parameter, mark := range f.marks {
		if *mark {
			query.Set(parameter, "1")
		}
	}
	if f.limit < 0 {
		return nil, usagef("--limit is %d, it must not be negative", f.limit)
	}
	return query, nil
}

// ofRun asks for the list of what a run has.
func (f *listFlags) ofRun(cmd *cobra.Command, io stdio, ref, what string) (*remote.Client, *remote.List, error) {
	query, err := f.query()
	if err != nil {
		return nil, nil, err
	}
	server, id, err := f.run(cmd.Context(), io, ref)
	if err != nil {
		return nil, nil, err
	}
	list, err := server.List(cmd.Context(), remote.RunPath(id, what), what, query, f.limit)
	return server, list, err
}

// print prints the items of a list as a table, or the API's document.
func (f *listFlags) print(io stdio, list *remote.List, what string, table func(goio.Writer, []json.RawMessage) error) error {
	if f.json {
		return printJSON(io.out, list)
	}
	if err := table(io.out, list.Items); err != nil {
		return err
	}
	printMore(io, len(list.Items), what, list.Next)
	return nil
}

// printMore says on stderr how many lines there were and how to see the rest.
func printMore(io stdio, n int, what, next string) {
	switch {
	case next != "":
		fmt.Fprintf(io.err, "%d %s shown; there are more: --cursor %s\n", n, what, next)
	case n == 0:
		fmt.Fprintf(io.err, "no %s\n", what)
	}
}
