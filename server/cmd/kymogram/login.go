package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	goio "io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/keys"
	"github.com/kymogram/kymogram/server/internal/table"
)

// linkMark comes before the token in a one-time link.
const linkMark = "/login#"

func loginCommand(io stdio) *cobra.Command {
	var name, scopes, expires string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "login [ADDRESS]",
		Short: "Sign in to a server: its key is kept for every client of yours",
		Long: `Sign in to a server. ADDRESS is the server's, or a one-time link that
` + "`kymogram key link`" + ` or the server's start printed. A link is traded for a new key.
With the server's address alone, paste a link or a key; a program writes it to stdin.

The key is checked and kept in credentials.json, readable by you alone. Python, Go
and this command find it there by the server's address.`,
		Example: `  kymogram login https://kymogram.example.org
  kymogram login 'https://kymogram.example.org/login#4f0c…' --scope ingest,read
  echo $KEY | kymogram login https://kymogram.example.org`,
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := keys.Parse(cmp.Or(name, ownName(io)), scopes, "", expires)
			if err != nil {
				return usageError{err}
			}
			in, err := login(cmd.Context(), io, first(args), request)
			return tell(io, asJSON, in, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "name of the new key (default USER@HOST)")
	flags.StringVar(&scopes, "scope", "admin", "rights of the new key, comma-separated: ingest, read, admin")
	flags.StringVar(&expires, "expires", "", "how long the new key is valid, such as 12h or 30d (default: no end)")
	flags.BoolVar(&asJSON, "json", false, "print a JSON object, without the key")
	return cmd
}

// first is the only argument, "" where there is none.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// ownName is who signs in, as lists of keys show it.
func ownName(io stdio) string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return cmp.Or(io.env("USER"), io.env("LOGNAME"), "user") + "@" + host
}

// signedIn is what a login did, and what whoami shows.
type signedIn struct {
	Server string `json:"server"`
	auth.Document
	// Path is where the key is kept, "" where it came from elsewhere.
	Path string `json:"path,omitempty"`
	note string
}

// Print shows whose key it is.
func (s signedIn) Print(out goio.Writer) error {
	if s.ID == "" {
		_, err := fmt.Fprintf(out, "%s checks no keys: everybody may do everything\n", s.Server)
		return err
	}
	scopes := make([]string, len(s.Scopes))
	for i, scope := range s.Scopes {
		scopes[i] = string(scope)
	}
	end := "no end"
	if s.ExpiresNs != 0 {
		end = "until " + table.When(s.ExpiresNs)
	}
	fmt.Fprintf(out, "%s: key %s (%s), scope %s for %s, %s\n", s.Server, s.ID, table.Printable(s.Name), strings.Join(scopes, ","), keys.Place(s.Document), end)
	if s.Path != "" {
		fmt.Fprintf(out, "The key is in %s\n", s.Path)
	}
	if s.note != "" {
		fmt.Fprintln(out, s.note)
	}
	return nil
}

// login signs in with a link, or with what is pasted.
func login(ctx context.Context, io stdio, at string, request auth.Request) (in signedIn, err error) {
	path := auth.CredentialsPath(io.env)
	if path == "" {
		return in, usagef("there is no folder for the key: set HOME or XDG_CONFIG_HOME")
	}
	if _, err := auth.Credentials(path); err != nil {
		return in, err // before a link is used up
	}
	address, secret, isLink := strings.Cut(at, linkMark)
	if address, err = serverAddress(io, address); err != nil {
		return in, err
	}
	if !isLink {
		text, err := paste(ctx, io, address)
		if err != nil {
			return in, err
		}
		var of string
		if of, secret, isLink = strings.Cut(text, linkMark); !isLink {
			secret = text
		} else if of, err = uplink.ParseServer(of); err != nil || of != address {
			return in, usagef("the link is for another server than %s: run `kymogram login LINK`", address)
		}
	}
	server := &remote.Client{Base: address, Flag: "ADDRESS"}
	if !isLink {
		server.Key = secret
		in, err = own(ctx, server)
		if model.CodeOf(err) != model.CodeUnauthenticated {
			return kept(ctx, io, in, path, secret, err)
		}
		server.Key = "" // perhaps the token of a link
	}
	doc, err := keys.Remote{Server: server}.Trade(ctx, secret, request)
	if !isLink && model.CodeOf(err) == model.CodeUnauthenticated {
		err = model.Errorf(model.CodeUnauthenticated, "what was pasted is neither a key of %s nor a link that is still good", address).
			WithHint("make a link with: kymogram key link")
	}
	secret, doc.Key = doc.Key, ""
	return kept(ctx, io, signedIn{Server: address, Document: doc}, path, secret, err)
}

// kept keeps the key of a server that took it.
func kept(ctx context.Context, io stdio, in signedIn, path, secret string, err error) (signedIn, error) {
	if err != nil || in.ID == "" {
		return in, err
	}
	earlier := earlierKey(ctx, path, in.Server, secret)
	if err := auth.SaveCredentials(ctx, path, secret, auth.Addresses(in.Server)...); err != nil {
		return in, fmt.Errorf("%w; the key %s was made, so end it with: kymogram key revoke %s", err, in.ID, in.ID)
	}
	in.Path, in.note = path, earlier
	if io.env("KYMOGRAM_API_KEY") != "" {
		in.note = strings.TrimPrefix(in.note+"\nKYMOGRAM_API_KEY is set, and clients take that key first.", "\n")
	}
	return in, nil
}

// earlierKey is what to say of a key in the file that a new one replaces. The old key stays
// valid: running programs may use it.
func earlierKey(ctx context.Context, path, address, secret string) string {
	stored, err := auth.Credentials(path)
	if err != nil {
		return ""
	}
	had := stored[auth.Addresses(address)[0]]
	if had == "" || had == secret {
		return ""
	}
	in, err := own(ctx, &remote.Client{Base: address, Key: had, Flag: "ADDRESS"})
	if err != nil || in.ID == "" {
		return "" // it has ended
	}
	return fmt.Sprintf("The key %s (%s) was there before and stays valid. When no program uses it any more, end it: kymogram key revoke %s", in.ID, table.Printable(in.Name), in.ID)
}

// serverAddress is the server that a person means, in its canonical form.
func serverAddress(io stdio, given string) (string, error) {
	address, err := uplink.ParseServer(cmp.Or(given, io.env("KYMOGRAM_SERVER"), defaultServer))
	if err != nil {
		return "", usageError{err}
	}
	return address, nil
}

// paste reads a key or a link, without showing it on a terminal.
func paste(ctx context.Context, io stdio, address string) (string, error) {
	var text string
	if file, ok := io.in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprintf(io.err, "Key, or link of `kymogram key link`, for %s: ", address)
		word, err := term.ReadPassword(int(file.Fd()))
		fmt.Fprintln(io.err)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		text = string(word)
	} else {
		line, err := bufio.NewReader(goio.LimitReader(io.in, 64<<10)).ReadString('\n')
		if err != nil && !errors.Is(err, goio.EOF) {
			return "", fmt.Errorf("read the key: %w", err)
		}
		text = line
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", usagef("no key was given for %s: paste a key or a link of `kymogram key link`", address)
	}
	return text, ctx.Err()
}

// own asks a server whose key it is asked with.
func own(ctx context.Context, server *remote.Client) (signedIn, error) {
	doc, err := keys.Remote{Server: server}.Own(ctx)
	return signedIn{Server: server.Base, Document: doc}, err
}

func whoamiCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:     "whoami",
		Short:   "Show the key that the server is asked with: its name, scopes and end",
		Example: "  kymogram whoami --server https://kymogram.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			in, err := own(cmd.Context(), server)
			return tell(io, c.json, in, err)
		},
	}
	c.addTo(cmd)
	return cmd
}

func logoutCommand(io stdio) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "logout [ADDRESS]",
		Short: "Remove a server's key from this machine, and end it if a login made it",
		Long: `Remove a server's key from credentials.json and from the spool. A key that ` + "`kymogram login`" + `
made is ended at the server, too. Other keys stay valid. Points that wait in the spool
are delivered after the next login. KYMOGRAM_SPOOL_DIR names a spool elsewhere.`,
		Example: "  kymogram logout https://kymogram.example.org",
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := logout(cmd.Context(), io, first(args))
			return tell(io, asJSON, out, err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// signedOut is what a logout did.
type signedOut struct {
	Server  string `json:"server"`
	Revoked bool   `json:"revoked"` // the key ended at the server
	Why     string `json:"why,omitempty"`
}

// Print tells it.
func (s signedOut) Print(out goio.Writer) error {
	if s.Revoked {
		_, err := fmt.Fprintf(out, "%s: the key was ended and removed\n", s.Server)
		return err
	}
	_, err := fmt.Fprintf(out, "%s: the key was removed here and stays valid: %s\n", s.Server, s.Why)
	return err
}

func logout(ctx context.Context, io stdio, at string) (out signedOut, err error) {
	address, err := serverAddress(io, at)
	if err != nil {
		return out, err
	}
	base, err := url.Parse(address)
	if err != nil {
		return out, fmt.Errorf("parse address: %w", err)
	}
	path := auth.CredentialsPath(io.env)
	stored, err := auth.Credentials(path)
	if err != nil {
		return out, err
	}
	var secret string
	names := remote.Spellings(base)
	for _, name := range names {
		secret = cmp.Or(secret, stored[name])
	}
	if secret == "" {
		return out, model.Errorf(model.CodeNotFound, "%s has no key of %s", cmp.Or(path, "credentials.json"), address)
	}
	out.Server = address
	err = keys.Remote{Server: &remote.Client{Base: address, Key: secret, Flag: "ADDRESS"}}.EndOwn(ctx)
	if out.Revoked = err == nil || model.CodeOf(err) == model.CodeUnauthenticated; !out.Revoked { // the latter has ended already
		if out.Why = err.Error(); model.Shown(err) != nil {
			out.Why += "; " + model.Shown(err).Hint
		}
	}
	return out, errors.Join(auth.ForgetCredentials(path, names...), spool.ForgetKey(io.env, secret))
}
