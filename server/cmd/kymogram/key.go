package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/table"
)

func keyCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke API keys",
		Long: "Make, list and revoke API keys of a running server, which takes an admin key,\n" +
			"or, with --data, of the folder of a server on this machine, running or not.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which one? see kymogram key --help")
		},
	}
	cmd.AddCommand(keyCreateCommand(io), keyListCommand(io), keyRevokeCommand(io), keyLinkCommand(io))
	return cmd
}

// keyAdmin is where keys are kept: behind a server or in a data folder.
type keyAdmin interface {
	create(ctx context.Context, r server.KeyRequest) (server.KeyDoc, error)
	list(ctx context.Context) ([]server.KeyDoc, error)
	revoke(ctx context.Context, id string) error
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

// with runs work on the keys and releases them.
func (f *keyFlags) with(ctx context.Context, io stdio, work func(keyAdmin) error) error {
	if f.data == "" {
		c, err := f.dial(io)
		if err != nil {
			return err
		}
		return work(remoteKeys{c})
	}
	path := filepath.Join(f.data, catalogFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return model.Errorf(model.CodeNotFound, "%s is no data folder of a server: it has no %s", f.data, catalogFile).
			WithHint("give the folder that kymogram serve --data uses")
	}
	db, err := sqlite.Open(ctx, path)
	if err != nil {
		return explainFault(f.data, err)
	}
	return errors.Join(work(folderKeys{auth.New(db, time.Now, false)}), db.Close())
}

// remoteKeys are the keys of a running server.
type remoteKeys struct{ *remote.Client }

func (r remoteKeys) create(ctx context.Context, request server.KeyRequest) (doc server.KeyDoc, err error) {
	return doc, r.Exchange(ctx, http.MethodPost, "/api/v1/keys", request, &doc)
}

func (r remoteKeys) list(ctx context.Context) ([]server.KeyDoc, error) {
	var doc struct {
		Keys []server.KeyDoc `json:"keys"`
	}
	err := r.Exchange(ctx, http.MethodGet, "/api/v1/keys", nil, &doc)
	return doc.Keys, err
}

func (r remoteKeys) revoke(ctx context.Context, id string) error {
	response, err := r.Send(ctx, http.MethodDelete, "/api/v1/keys/"+id, nil, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// folderKeys are the keys in a data folder.
type folderKeys struct{ *auth.Keyring }

func (f folderKeys) create(ctx context.Context, request server.KeyRequest) (server.KeyDoc, error) {
	request.Expires = time.Duration(request.ExpiresSeconds) * time.Second
	secret, key, err := f.Create(ctx, request.KeySpec)
	doc := server.NewKeyDoc(key, time.Now())
	doc.Key = secret
	return doc, err
}

func (f folderKeys) list(ctx context.Context) ([]server.KeyDoc, error) {
	keys, err := f.List(ctx)
	return server.KeyDocs(keys, time.Now()), err
}

func (f folderKeys) revoke(ctx context.Context, id string) error { return f.Revoke(ctx, id) }

func keyCreateCommand(io stdio) *cobra.Command {
	var f keyFlags
	var name, scopes, project, expires string
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope ingest,read",
		Short: "Make a key and print it; it is shown only now",
		Example: "  kymogram key create --name trainer --scope ingest --project team/digits\n" +
			"  kymogram key create --name grafana --scope read --expires 30d",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			request, err := keyRequest(name, scopes, project, expires)
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), io, func(keys keyAdmin) error {
				doc, err := keys.create(cmd.Context(), request)
				if err != nil {
					return err
				}
				if f.json {
					return printJSON(io.out, doc)
				}
				fmt.Fprintln(io.out, doc.Key)
				fmt.Fprintf(io.err, "key %s (%s): keep it now, it is not shown again\n", doc.ID, table.Printable(doc.Name))
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "what the key is for")
	flags.StringVar(&scopes, "scope", "", "its rights, comma-separated: ingest, read, admin")
	flags.StringVar(&project, "project", "", "WORKSPACE or WORKSPACE/PROJECT that it is for (default all)")
	flags.StringVar(&expires, "expires", "", "its life, such as 12h or 30d (default for ever)")
	f.addTo(cmd)
	return cmd
}

func keyRequest(name, scopes, project, expires string) (r server.KeyRequest, err error) {
	if name == "" || scopes == "" {
		return r, usagef("a key needs --name and --scope")
	}
	r.Name = name
	for scope := range strings.SplitSeq(scopes, ",") {
		r.Scopes = append(r.Scopes, auth.Scope(strings.TrimSpace(scope)))
	}
	r.Workspace, r.Project, _ = strings.Cut(project, "/")
	if expires != "" {
		life, err := parseLife(expires)
		if err != nil {
			return r, err
		}
		r.ExpiresSeconds = int64(life / time.Second)
	}
	return r, nil
}

// parseLife reads a duration; days, which time.ParseDuration lacks, too.
func parseLife(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return 0, usagef("--expires is %q: give a time such as 12h or 30d", s)
	}
	return d, nil
}

func keyListCommand(io stdio) *cobra.Command {
	var f keyFlags
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys; their secrets are not kept",
		Example: "  kymogram key list --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), io, func(keys keyAdmin) error {
				docs, err := keys.list(cmd.Context())
				if err != nil {
					return err
				}
				if f.json {
					return printJSON(io.out, map[string][]server.KeyDoc{"keys": docs})
				}
				return printKeys(io, docs, all)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "revoked and expired keys too")
	f.addTo(cmd)
	return cmd
}

func printKeys(io stdio, docs []server.KeyDoc, all bool) error {
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tFOR\tSTATE\tLAST USE\tEXPIRES")
	for _, d := range docs {
		if d.State != "valid" && !all {
			continue
		}
		scopes := make([]string, len(d.Scopes))
		for i, s := range d.Scopes {
			scopes[i] = string(s)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.ID, table.Printable(d.Name), strings.Join(scopes, ","),
			table.Printable(place(d)), d.State, table.When(d.LastNs), table.When(d.ExpiresNs))
	}
	return w.Flush()
}

func place(d server.KeyDoc) string {
	switch {
	case d.Workspace == "":
		return "all"
	case d.Project == "":
		return d.Workspace
	}
	return d.Workspace + "/" + d.Project
}

func keyRevokeCommand(io stdio) *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a key for good; it counts within a second",
		Example: "  kymogram key revoke 1f2e3d4c5b6a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			if strings.Trim(id, "0123456789abcdef") != "" {
				return usagef("%q is not the id of a key: kymogram key list shows them", id)
			}
			return f.with(cmd.Context(), io, func(keys keyAdmin) error {
				if err := keys.revoke(cmd.Context(), id); err != nil {
					return err
				}
				if f.json {
					return printJSON(io.out, map[string]string{"revoked": id})
				}
				fmt.Fprintf(io.out, "revoked %s\n", id)
				return nil
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
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := c.dial(io)
			if err != nil {
				return err
			}
			var doc struct {
				Link      string `json:"link"`
				ExpiresNs int64  `json:"expires_ns"`
			}
			if err := client.Exchange(cmd.Context(), http.MethodPost, "/api/v1/links", struct{}{}, &doc); err != nil {
				return err
			}
			if c.json {
				return printJSON(io.out, doc)
			}
			fmt.Fprintln(io.out, doc.Link)
			return nil
		},
	}
	c.addTo(cmd)
	return cmd
}
