package main

import (
	"cmp"
	"context"
	"fmt"
	goio "io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

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
	address := cmp.Or(c.server, io.env("KYMOGRAM_SERVER"), defaultServer)
	address, err := uplink.ParseServer(address)
	if err != nil {
		return nil, usageError{err}
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	key := cmp.Or(c.key, io.env("KYMOGRAM_API_KEY"))
	if key == "" {
		if key, err = remote.UserKey(io.env, base); err != nil {
			return nil, err
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usagef("the API key holds a space or a control character: it is 40 hexadecimal characters")
	}
	return &remote.Client{Base: base.String(), Key: key, Flag: "--server", Hint: func(text string) { fmt.Fprintln(io.err, text) }}, nil
}

// run finds the server, and the ULID of the run that somebody calls ref.
func (c *connection) run(ctx context.Context, io stdio, ref string) (*remote.Client, string, error) {
	server, err := c.dial(io)
	if err != nil {
		return nil, "", err
	}
	id, err := server.RunID(ctx, ref)
	return server, id, err
}

// found is what a command found or did; with an Err also how it ends.
type found interface{ Print(w goio.Writer) error }

// tell prints what a command found, as JSON or for a person, or gives on what kept it
// from that.
func tell(io stdio, asJSON bool, what found, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(io.out, what)
	} else {
		err = what.Print(io.out)
	}
	if ends, ok := what.(interface{ Err() error }); ok && err == nil {
		err = ends.Err()
	}
	return err
}

// printJSON prints a document, one line.
func printJSON(w goio.Writer, doc any) error { return table.JSON(w, doc) }
