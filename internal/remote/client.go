package remote

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// maxRefusal is how much of an error answer is read.
const maxRefusal = 64 << 10

// Client asks one server. It is safe for concurrent use.
type Client struct {
	// Base is the server's address, without a slash at its end.
	Base string
	// Key is the API key; empty sends none.
	Key string
	// Flag is the flag with which a person names another server, such as --server.
	// Errors then are for a person; it is empty where a program asks.
	Flag string
	// Most and Time bound an answer, its bytes and until its end, where the server may be
	// a stranger; 0: no bound.
	Most int64
	Time time.Duration
	// Header is sent with each request, such as If-Match; nil for none.
	Header http.Header
	// Hint takes what the server says besides its answer: what the caller may have meant
	// with a filter, an order or a column. nil: nobody listens.
	Hint func(text string)
}

// hintHeader is where a server has it.
const hintHeader = "Kymogram-Hint"

// Send makes a request with query and body, each nil for none. The answer's body is
// the caller's to close; an answer that is an error becomes a *model.Error. A server
// that is busy is asked again, a few times.
func (c *Client) Send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var payload []byte
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		payload = text
	}
	address := c.Base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	for try := 1; ; try++ {
		response, err := c.once(ctx, method, address, payload)
		if err == nil && c.Hint != nil && response.Header.Get(hintHeader) != "" {
			c.Hint(response.Header.Get(hintHeader))
		}
		if err != nil || response.StatusCode < 300 {
			return response, err
		}
		wait, busy := retryAfter(response)
		if err := c.refusal(response); !busy || !strings.HasPrefix(path, "/api/") || try == tries {
			return nil, tried(err, try)
		}
		if err := pause(ctx, wait); err != nil {
			return nil, c.unreachable(ctx, err)
		}
	}
}

// A busy server is asked so often, and waited for so long in between at most.
const (
	tries    = 5
	mostWait = 5 * time.Second
)

// retryAfter says whether a server refused a request only for now. Then it has done
// nothing of it, whatever the method.
func retryAfter(r *http.Response) (wait time.Duration, busy bool) {
	header := r.Header.Get("Retry-After")
	get := r.Request.Method == http.MethodGet && header != ""
	if r.StatusCode != http.StatusTooManyRequests && (r.StatusCode != http.StatusServiceUnavailable || !get) {
		return 0, false
	}
	seconds, err := strconv.Atoi(header)
	if err != nil {
		seconds = 1
	}
	return min(max(time.Duration(seconds)*time.Second, 0), mostWait), true
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// tried says how often a server was asked that stayed busy.
func tried(err error, times int) error {
	var refused *model.Error
	if times == 1 || !errors.As(err, &refused) {
		return err
	}
	out := *refused
	out.Message += fmt.Sprintf(" (asked %d times)", times)
	return &out
}

// once sends a request. A refusal is an answer, too.
func (c *Client) once(ctx context.Context, method, address string, payload []byte) (*http.Response, error) {
	var body io.Reader
	if payload != nil {
		body = bytes.NewReader(payload)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(request.Header, c.Header)
	if payload != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	response, err := c.staying().Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if c.Most > 0 {
		response.Body = http.MaxBytesReader(nil, response.Body, c.Most)
	}
	return response, nil
}

// staying follows no redirects: the key goes where the user sends it. Its
// connections are those of http.DefaultTransport.
func (c *Client) staying() *http.Client {
	return &http.Client{Timeout: c.Time, CheckRedirect: func(to *http.Request, via []*http.Request) error { return model.Redirected(via[0].URL, to.URL) }}
}

func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && c.Flag == "" {
		return ctx.Err()
	} else if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if moved := (*model.Error)(nil); errors.As(err, &moved) {
		return moved
	}
	hint := "start it with `kymogram serve`, or name another"
	if c.Flag != "" {
		hint += " with " + c.Flag + " or KYMOGRAM_SERVER"
	}
	if found := c.transportHint(err); found != "" {
		hint = found
	}
	if c.Flag != "" {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
	}
	return model.Errorf(model.CodeUnavailable, "cannot reach the server at %s: %v", c.Base, err).WithHint("%s", hint)
}

// transportHint is the remedy where a server is there, but TLS keeps it from being understood.
func (c *Client) transportHint(err error) string {
	var unknown x509.UnknownAuthorityError
	plain, isPlain := strings.CutPrefix(c.Base, "http://")
	switch {
	case errors.As(err, &unknown):
		return "set SSL_CERT_FILE to the server's authority, DATA/tls/ca.pem with `kymogram serve --tls self`"
	case isPlain && (errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP response")):
		return "something listens there that may speak TLS: try https://" + plain
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the port speaks no TLS: try http://" + strings.TrimPrefix(c.Base, "https://")
	}
	return ""
}

// refusal reads {"error":…}; whatever else answers is no Kymogram server.
func (c *Client) refusal(response *http.Response) error {
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	var doc struct {
		Error *model.Error `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil && doc.Error != nil && doc.Error.Message != "" {
		// The server does not know by which address it was asked.
		return doc.Error.WithHint("%s", strings.ReplaceAll(doc.Error.Hint, "kymogram login ADDRESS", "kymogram login "+c.Base))
	}
	if response.StatusCode == http.StatusRequestHeaderFieldsTooLarge { // HTTP's own answer
		return model.Errorf(model.CodeInvalid, "a name or a filter of the request is too long")
	}
	hint := "is it another program, or a proxy?"
	if strings.Contains(string(body), "HTTP request to an HTTPS server") { // as Go's servers answer
		hint = "the port speaks TLS: try https://" + strings.TrimPrefix(c.Base, "http://") + ";"
	}
	if c.Flag != "" {
		hint += " check " + c.Flag
	}
	return model.Errorf(model.CodeUnavailable, "the server at %s answered %s, which is no answer of Kymogram", c.Base, response.Status).
		WithHint("%s", hint)
}

// Document fetches one JSON document as the server wrote it.
func (c *Client) Document(ctx context.Context, method, path string, query url.Values) (json.RawMessage, error) {
	response, err := c.Send(ctx, method, path, query, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, unread(err)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("the server at %s did not answer with JSON", c.Base)
	}
	return bytes.TrimSpace(body), nil
}

// Exchange sends a document and decodes the answer.
func (c *Client) Exchange(ctx context.Context, method, path string, body, into any) error {
	response, err := c.Send(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return unread(err)
	}
	return nil
}

func unread(err error) error {
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return model.Errorf(model.CodeTooLarge, "the server's answer has more than %d bytes, which no honest one has", large.Limit)
	}
	return fmt.Errorf("read the server's answer: %w", err)
}

// resolved is what a server found for a name.
type resolved struct{ ID, Workspace, Project, Name string }

func (c *Client) resolve(ctx context.Context, what, ref string) (doc resolved, err error) {
	body, err := c.Document(ctx, http.MethodGet, "/api/v1/resolve", url.Values{what: {ref}})
	if err != nil {
		return doc, err
	}
	if err := json.Unmarshal(body, &doc); err != nil || doc.ID+doc.Workspace == "" {
		return doc, fmt.Errorf("the server did not say which %s %q is", what, ref)
	}
	return doc, nil
}

// RunID asks for the ULID of the run that a person calls ref: an id, workspace/project/name, or
// less of it where that means one run only.
func (c *Client) RunID(ctx context.Context, ref string) (string, error) {
	doc, err := c.resolve(ctx, "run", ref)
	return doc.ID, err
}

// RunName is workspace/project/name of a run, or its ULID where the server does not say.
func (c *Client) RunName(ctx context.Context, id string) (string, error) {
	doc, err := c.resolve(ctx, "run", id)
	if doc.Name == "" {
		return id, err
	}
	return doc.Workspace + "/" + doc.Project + "/" + doc.Name, err
}

// ExactRunID asks for the ULID of workspace/project/name, and takes no other run for it:
// CodeNotFound where there is none.
func (c *Client) ExactRunID(ctx context.Context, ref string) (string, error) {
	doc, err := c.resolve(ctx, "run", ref)
	if model.CodeOf(err) == model.CodeAmbiguous || err == nil && doc.Name != "" && doc.Workspace+"/"+doc.Project+"/"+doc.Name != ref {
		return "", model.Errorf(model.CodeNotFound, "there is no run %s", ref)
	}
	return doc.ID, err
}

// Project asks for the workspace and the project that a person calls ref: workspace/project, or
// the project alone where one workspace has it.
func (c *Client) Project(ctx context.Context, ref string) (workspace, project string, err error) {
	doc, err := c.resolve(ctx, "project", ref)
	return doc.Workspace, doc.Project, err
}

// RunPath is the address of a run's resource.
func RunPath(id string, rest ...string) string {
	return strings.Join(append([]string{"/api/v1/runs", url.PathEscape(id)}, rest...), "/")
}
