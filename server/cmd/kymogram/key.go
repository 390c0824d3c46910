package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/keys"
)

func keyCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys",
		Long: "Make, list and revoke API keys of a running server, which takes an admin key,\n" +
			"or, with --data, of the folder of a server on this machine, running or not.",
	}, keyCreateCommand(io), keyListCommand(io), keyRevokeCommand(io), keyLinkCommand(io), keyPublicCommand(io))
}

// keyAdmin is where keys are kept: behind a server or in a data folder.
type keyAdmin interface {
	Create(ctx context.Context, r auth.Request) (auth.Document, error)
	List(ctx context.Context) ([]auth.Document, error)
	Revoke(ctx context.Context, id string) error
}

// keyFlags say where.
type keyFlags struct {
	connection
	data string
}

func (f *keyFlags) addTo(cmd *cobra.Command) {
	f.connection.addTo(cmd)
	cmd.Flags().StringVar(&f.data, "data", "", "a server's data folder, instead of a running server")
	cmd.MarkFlagsMutuallyExclusive("data", "server")
	cmd.MarkFlagsMutuallyExclusive("data", "key")
}

// with runs work on the keys, tells what came of it and releases them.
func (f *keyFlags) with(ctx context.Context, io stdio, work func(keyAdmin) (found, error)) error {
	if f.data == "" {
		c, err := f.dial(io)
		if err != nil {
			return err
		}
		what, err := work(keys.Remote{Server: c})
		return tell(io, f.json, what, err)
	}
	catalog, err := data.Folder(f.data).Guest(ctx, newLog(io, "warn"))
	if err != nil {
		return err
	}
	what, err := work(keys.Folder{Keyring: auth.New(catalog, time.Now, false)})
	return errors.Join(tell(io, f.json, what, err), catalog.Close())
}

func keyCreateCommand(io stdio) *cobra.Command {
	var f keyFlags
	var name, scopes, project, expires string
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope ingest,read",
		Short: "Make a key and print it; it is shown only now",
		Example: "  kymogram key create --name trainer --scope ingest --project team/digits\n" +
			"  kymogram key create --name grafana --scope read --expires 30d",
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := keys.Parse(name, scopes, project, expires)
			if err != nil {
				return usageError{err}
			}
			return f.with(cmd.Context(), io, func(store keyAdmin) (found, error) {
				doc, err := store.Create(cmd.Context(), request)
				return keys.Created{Document: doc, Notes: io.err}, err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "what the key is for")
	flags.StringVar(&scopes, "scope", "", "its rights, comma-separated: ingest, read, admin")
	flags.StringVar(&project, "project", "", "WORKSPACE or WORKSPACE/PROJECT that it is for (default all)")
	flags.StringVar(&expires, "expires", "", "how long it is valid, such as 12h or 30d (default: no end)")
	f.addTo(cmd)
	return cmd
}

func keyListCommand(io stdio) *cobra.Command {
	var f keyFlags
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys; their secrets are not kept",
		Example: "  kymogram key list --all",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), io, func(store keyAdmin) (found, error) {
				docs, err := store.List(cmd.Context())
				return keys.Listed{Keys: docs, All: all}, err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "revoked and expired keys too")
	f.addTo(cmd)
	return cmd
}

func keyRevokeCommand(io stdio) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a key for good; it counts within a second",
		Example: "  kymogram key revoke 1f2e3d4c5b6a",
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			if strings.Trim(id, "0123456789abcdef") != "" {
				return usagef("%q is not the id of a key: kymogram key list shows them", id)
			}
			return f.with(cmd.Context(), io, func(store keyAdmin) (found, error) {
				return keys.Revoked{ID: id}, store.Revoke(cmd.Context(), id)
			})
		},
	}
	f.addTo(cmd)
	return cmd
}

func keyLinkCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:     "link",
		Short:   "Make a one-time link that signs a browser in; it is good for 15 minutes",
		Example: "  kymogram key link",
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := c.dial(io)
			if err != nil {
				return err
			}
			link, err := keys.Remote{Server: client}.Link(cmd.Context())
			return tell(io, c.json, link, err)
		},
	}
	c.addTo(cmd)
	return cmd
}

func keyPublicCommand(io stdio) *cobra.Command {
	var c connection
	var expires string
	cmd := &cobra.Command{
		Use:   "public WORKSPACE/PROJECT",
		Short: "Make a public link to a project's Network page; it reads this project only",
		Long: "Make a link that opens a project's Network page for anyone, without signing in.\n" +
			"It reads this project, writes nothing and sees no keys. Its key is listed as\n" +
			"\"public link\"; `kymogram key revoke ID` ends the link at once. The project's first run\n" +
			"may come later.",
		Example: "  kymogram key public team/network --expires 30d",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := c.dial(io)
			if err != nil {
				return err
			}
			workspace, project, err := splitProject(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			request, err := keys.Public(workspace+"/"+project, expires)
			if err != nil {
				return usageError{err}
			}
			made, err := keys.Remote{Server: client}.Publish(cmd.Context(), request)
			made.Notes = io.err
			return tell(io, c.json, made, err)
		},
	}
	cmd.Flags().StringVar(&expires, "expires", "", "how long it is valid, such as 12h or 30d (default: no end)")
	c.addTo(cmd)
	return cmd
}
