package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/table"
)

const defaultServer = "http://127.0.0.1:7070"

// connection holds the flags that say which server to ask, and as whom.
type connection struct {
	server, key string
	json        bool
}

// addTo adds --server, --key and --json to a command.
func (c *connection) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.server, "server", "", "address of the server (default KYMOGRAM_SERVER, else "+defaultServer+")")
	flags.StringVar(&c.key, "key", "", "API key (default KYMOGRAM_API_KEY, else the one in credentials.json)")
	flags.BoolVar(&c.json, "json", false, "print the API's JSON document")
}

// dial finds the server and the key: flag, environment, file, in this order.
func (c *connection) dial(io stdio) (*remote.Client, error) {
	address := first(c.server, io.env("KYMOGRAM_SERVER"), defaultServer)
	address, err := uplink.ParseServer(address)
	if err != nil {
		return nil, usageError{err}
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	key := first(c.key, io.env("KYMOGRAM_API_KEY"))
	if key == "" {
		if key, err = storedKey(io, base); err != nil {
			return nil, err
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usagef("the API key holds a space or a control character: it is 40 hexadecimal characters")
	}
	return &remote.Client{Base: base.String(), Key: key, Flag: "--server"}, nil
}

func first(choices ...string) string {
	for _, c := range choices {
		if c != "" {
			return c
		}
	}
	return ""
}

// storedKey looks the address up in credentials.json; no file is no error.
func storedKey(io stdio, base *url.URL) (string, error) {
	folder := io.env("XDG_CONFIG_HOME")
	if folder == "" {
		if io.env("HOME") == "" {
			return "", nil
		}
		folder = filepath.Join(io.env("HOME"), ".config")
	}
	key, err := remote.StoredKey(folder, remote.Spellings(base)...)
	if damaged := (*model.Error)(nil); errors.As(err, &damaged) {
		return "", damaged.WithHint("it holds {\"%s\": \"KEY\"}; repair or delete it, or give --key", defaultServer)
	}
	return key, err
}

// runID finds the ULID of RUN: an id, or workspace/project/name.
func runID(ctx context.Context, server *remote.Client, ref string) (string, error) {
	if _, err := model.ParseRunID(ref); err != nil && strings.Count(ref, "/") < 2 {
		return "", usagef("%q names no run: give its 26-character id or workspace/project/name", ref)
	}
	return server.RunID(ctx, ref)
}

// printJSON prints a document, one line.
func printJSON(w goio.Writer, doc any) error { return table.JSON(w, doc) }

// printList prints the items of a list as a table, or the API's document.
func (c *connection) printList(io stdio, list *remote.List, what string, table func(goio.Writer, []json.RawMessage) error) error {
	if c.json {
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
