package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/uplink"
)

const (
	defaultServer = "http://127.0.0.1:7070"
	// maxPage is the most that lists give at once.
	maxPage = 1_000
)

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

// client asks one server's JSON API.
type client struct {
	base *url.URL
	key  string
	http *http.Client
}

// dial finds the server and the key: flag, environment, file, in this order.
func (c *connection) dial(io stdio) (*client, error) {
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
	return &client{base: base, key: key, http: stayingClient()}, nil
}

// stayingClient follows no redirects: the key goes where the user sends it.
func stayingClient() *http.Client {
	return &http.Client{CheckRedirect: func(to *http.Request, via []*http.Request) error { return model.Redirected(via[0].URL, to.URL) }}
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
	path := filepath.Join(folder, "kymogram", "credentials.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stored key: %w", err)
	}
	var keys map[string]string
	if err := json.Unmarshal(data, &keys); err != nil {
		return "", model.Errorf(model.CodeInvalid, "%s is damaged: %v", path, err).
			WithHint("it holds {\"%s\": \"KEY\"}; repair or delete it, or give --key", defaultServer)
	}
	for _, address := range spellings(base) {
		if key := keys[address]; key != "" {
			return key, nil
		}
	}
	return "", nil
}

// spellings are the ways to write an address: localhost is 127.0.0.1 too.
func spellings(base *url.URL) []string {
	out := []string{base.String(), base.String() + "/"}
	host := base.Hostname()
	for _, other := range []string{"127.0.0.1", "localhost", "[::1]"} {
		if (host == "localhost" || net.ParseIP(host).IsLoopback()) && base.Port() != "" {
			out = append(out, base.Scheme+"://"+other+":"+base.Port())
		}
	}
	return out
}

// send makes a request; the answer's body is the caller's to close. An answer
// that is an error becomes one.
func (c *client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = bytes.NewReader(text)
	}
	address := c.base.String() + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, payload)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		return nil, c.refusal(response)
	}
	return response, nil
}

func (c *client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if moved := (*model.Error)(nil); errors.As(err, &moved) {
		return moved
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return model.Errorf(model.CodeUnavailable, "cannot reach the server at %s: %v", c.base, err).
		WithHint("start it with `kymogram serve`, or name another with --server or KYMOGRAM_SERVER")
}

// refusal reads {"error":…}; whatever else answers is no Kymogram server.
func (c *client) refusal(response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	var doc struct {
		Error *model.Error `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil && doc.Error != nil && doc.Error.Message != "" {
		return doc.Error
	}
	return model.Errorf(model.CodeUnavailable, "the server at %s answered %s, which is no answer of Kymogram", c.base, response.Status).
		WithHint("is it another program, or a proxy? check --server")
}

// document fetches one JSON document.
func (c *client) document(ctx context.Context, method, path string, query url.Values) (json.RawMessage, error) {
	response, err := c.send(ctx, method, path, query, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("the server at %s did not answer with JSON", c.base)
	}
	return bytes.TrimSpace(body), nil
}

// listing is a list over as many pages as it took.
type listing struct {
	field string
	items []json.RawMessage
	next  string // when limit ended it
}

// list reads the pages of a list up to limit items, 0 for all.
func (c *client) list(ctx context.Context, path, field string, query url.Values, limit int) (*listing, error) {
	out := &listing{field: field, items: []json.RawMessage{}, next: query.Get("cursor")}
	for {
		size := maxPage
		if limit > 0 {
			size = min(size, limit-len(out.items))
		}
		query.Set("limit", strconv.Itoa(size))
		if out.next != "" {
			query.Set("cursor", out.next)
		}
		body, err := c.document(ctx, http.MethodGet, path, query)
		if err != nil {
			return nil, err
		}
		if err := out.add(body); err != nil {
			return nil, err
		}
		if out.next == "" || (limit > 0 && len(out.items) >= limit) {
			return out, nil
		}
	}
}

func (l *listing) add(body json.RawMessage) error {
	var page map[string]json.RawMessage
	if err := json.Unmarshal(body, &page); err != nil {
		return fmt.Errorf("read the server's list: %w", err)
	}
	var items []json.RawMessage
	if err := json.Unmarshal(page[l.field], &items); err != nil {
		return fmt.Errorf("read the server's list of %s: %w", l.field, err)
	}
	l.items, l.next = append(l.items, items...), ""
	if next, ok := page["next"]; ok {
		return json.Unmarshal(next, &l.next)
	}
	return nil
}

// MarshalJSON is the API's document: the items and where the list goes on.
func (l *listing) MarshalJSON() ([]byte, error) {
	var next *string
	if l.next != "" {
		next = &l.next
	}
	return json.Marshal(map[string]any{l.field: l.items, "next": next})
}

// runID finds the ULID of RUN: an id, or workspace/project/name.
func (c *client) runID(ctx context.Context, ref string) (string, error) {
	if id, err := model.ParseRunID(ref); err == nil {
		return id.String(), nil
	}
	if strings.Count(ref, "/") < 2 {
		return "", usagef("%q names no run: give its 26-character id or workspace/project/name", ref)
	}
	body, err := c.document(ctx, http.MethodGet, "/api/v1/resolve", url.Values{"run": {ref}})
	if err != nil {
		return "", err
	}
	var doc struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.ID == "" {
		return "", fmt.Errorf("the server did not say which run %s is", ref)
	}
	return doc.ID, nil
}

// runPath is the address of a run's resource.
func runPath(id string, rest ...string) string {
	return strings.Join(append([]string{"/api/v1/runs", url.PathEscape(id)}, rest...), "/")
}

// printJSON prints a document, one line.
func printJSON(w io.Writer, doc any) error {
	if raw, ok := doc.(json.RawMessage); ok {
		_, err := fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// isTerminal reports whether a person reads w, so that colour and progress help.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// when writes a time for a table, in the reader's zone.
func when(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).Format("2006-01-02 15:04:05")
}

// printable keeps names from moving the cursor or colouring the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return '\ufffd'
		}
		return r
	}, s)
}
