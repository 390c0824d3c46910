package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
)

// How a client waits.
const (
	firstWait   = time.Second
	longestWait = time.Minute
	// longestOrder bounds a wait that a server orders.
	longestOrder = time.Hour
	// headerWait is how long a server may think about an answer.
	headerWait = 3 * time.Minute
	// stall is how long a body may bring nothing.
	stall = 2 * time.Minute
	// Patience is how long a client waits in all for a server that does not answer, unless
	// the server itself orders a wait.
	Patience = 15 * time.Minute
)

// maxAnswer bounds an answer that is held in memory.
const maxAnswer = 64 << 20

// maxRefusal is how much of an error's text is read.
const maxRefusal = 64 << 10

// Client asks one server over W&B's API, and asks again what may be taken later. It is safe
// for concurrent use.
type Client struct {
	Base *url.URL
	// Key is the API key, "" for none; KeyFrom is where it was found, for a person.
	Key, KeyFrom string
	// Name is the server's in messages.
	Name string
	// Patience is how long a server may fail in a row.
	Patience time.Duration
	// Tell shows a person why nothing happens.
	Tell func(text string)

	http http.Client
	wait func(ctx context.Context, d time.Duration) error
	mu   sync.Mutex
	open time.Time // when the server takes the next request
}

// NewClient makes a client of the server at base.
func NewClient(base *url.URL, name, key, keyFrom string, tell func(text string)) *Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
		ResponseHeaderTimeout: headerWait, TLSHandshakeTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	c := &Client{Base: base, Key: key, KeyFrom: keyFrom, Name: name, Patience: Patience, Tell: tell, wait: sleep}
	c.http = http.Client{Transport: transport, CheckRedirect: follow}
	return c
}

// follow takes downloads to where the server keeps its files; http leaves the key out where
// the host changes. What is sent goes where the user said.
func follow(to *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) > 5 {
		return model.Redirected(via[0].URL, to.URL)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// later is a failure that may pass.
type later struct {
	error
	after time.Duration // as the server ordered; 0: it did not
}

func (l later) Unwrap() error { return l.error }

// again does something until it is done or fails for good.
func (c *Client) again(ctx context.Context, once func(ctx context.Context) error) error {
	var waited time.Duration
	for backoff := firstWait; ; backoff = min(2*backoff, longestWait) {
		if err := c.admitted(ctx); err != nil {
			return err
		}
		err := once(ctx)
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		var failure later
		if !errors.As(err, &failure) {
			return err
		}
		pause := backoff/2 + rand.N(backoff/2+1)
		if failure.after > 0 {
			pause = min(failure.after, longestOrder)
		} else if waited += pause; waited > c.Patience {
			return failure.error
		}
		if c.Tell != nil && pause >= 2*time.Second {
			c.Tell(fmt.Sprintf("%s; asking again in %s", text(failure.error), duration.Text(pause.Round(time.Second))))
		}
		if err := c.wait(ctx, pause); err != nil {
			return ErrInterrupted
		}
	}
}

func text(err error) string {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// admitted waits until the server takes requests again.
func (c *Client) admitted(ctx context.Context) error {
	c.mu.Lock()
	wait := time.Until(c.open)
	c.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	if c.wait(ctx, min(wait, longestOrder)) != nil {
		return ErrInterrupted
	}
	return nil
}

// heed notes what a server says of its limits: no requests are left until a reset.
func (c *Client) heed(h http.Header) {
	left, err := strconv.ParseFloat(h.Get("Ratelimit-Remaining"), 64)
	reset, bad := seconds(h.Get("Ratelimit-Reset"))
	if err != nil || bad || left >= 1 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(reset); at.After(c.open) {
		c.open = at
	}
}

// seconds reads a header of seconds, which may have a fraction.
func seconds(text string) (d time.Duration, bad bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0) {
		return 0, true
	}
	return time.Duration(min(f, longestOrder.Seconds()) * float64(time.Second)), false
}

// ordered is how long a refusal asks to wait.
func ordered(h http.Header) time.Duration {
	after := h.Get("Retry-After")
	if d, bad := seconds(after); !bad {
		return max(d, time.Millisecond)
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(time.Until(at), time.Millisecond)
	}
	if d, bad := seconds(h.Get("Ratelimit-Reset")); !bad {
		return max(d, time.Millisecond)
	}
	return 0
}

// send makes one request. What the server may take later is a [later]. The body of an
// answer is the caller's to close; it ends with an error when it stalls.
func (c *Client) send(ctx context.Context, q *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	q = q.WithContext(ctx)
	q.Header.Set("User-Agent", "kymogram-import")
	if c.Key != "" && c.knows(q.URL) && q.Method != http.MethodPut {
		q.SetBasicAuth("api", c.Key)
	}
	answer, err := c.http.Do(q)
	if err != nil {
		cancel()
		return nil, c.unreachable(err)
	}
	c.heed(answer.Header)
	answer.Body = &watched{answer.Body, cancel, time.AfterFunc(stall, cancel)}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	return nil, c.refusal(answer, said)
}

// knows tells an address of the server itself: the key goes nowhere else.
func (c *Client) knows(at *url.URL) bool { return at.Host == c.Base.Host && at.Scheme == c.Base.Scheme }

func (c *Client) unreachable(err error) error {
	if moved := (*model.Error)(nil); errors.As(err, &moved) {
		return moved
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return later{model.Errorf(model.CodeUnavailable, "cannot reach %s: %v", c.Name, err), 0}
}

// watched is a body that ends when nothing comes.
type watched struct {
	io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.timer.Reset(stall)
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	defer w.cancel()
	return w.ReadCloser.Close()
}

// refusal is an answer that is an error.
func (c *Client) refusal(answer *http.Response, body []byte) error {
	said := reason(body)
	if said == "" {
		said = answer.Status
	}
	said = model.Clip(said)
	switch code := answer.StatusCode; {
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && !c.knows(answer.Request.URL):
		return model.Errorf(model.CodeInvalid, "%s keeps it at %s, which answers %s", c.Name, answer.Request.URL.Host, said).
			WithHint("The key is sent to %s only.", c.Base.Host)
	case code == http.StatusUnauthorized && c.Key == "":
		return model.Errorf(model.CodeUnauthenticated, "%s wants an API key", c.Name).WithHint("%s", c.keyHint())
	case code == http.StatusUnauthorized:
		return model.Errorf(model.CodeUnauthenticated, "%s refuses the key from %s", c.Name, c.KeyFrom).WithHint("%s", c.keyHint())
	case code == http.StatusForbidden:
		return model.Errorf(model.CodePermission, "%s forbids it: %s", c.Name, said)
	case code == http.StatusNotFound || code == http.StatusGone:
		return model.Errorf(model.CodeNotFound, "%s: %s", c.Name, said)
	case code == http.StatusRequestEntityTooLarge:
		return model.Errorf(model.CodeTooLarge, "%s: %s", c.Name, said)
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500 && code != http.StatusNotImplemented:
		return later{model.Errorf(model.CodeUnavailable, "%s answers %s", c.Name, said), ordered(answer.Header)}
	}
	return model.Errorf(model.CodeInvalid, "%s refuses the request: %s", c.Name, said)
}

func (c *Client) keyHint() string {
	return "W&B's key is in WANDB_API_KEY, in ~/.netrc or in the file of --key-file; Kymogram's in KYMOGRAM_API_KEY or --key."
}

// reason is what an error's body says.
func reason(body []byte) string {
	var doc struct {
		Error  json.RawMessage `json:"error"`
		Errors []problem       `json:"errors"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return ""
	}
	if len(doc.Errors) > 0 {
		return doc.Errors[0].Message
	}
	var said string
	_ = json.Unmarshal(doc.Error, &said) // an object is another's: the status says enough
	return said
}

// problem is an error of GraphQL.
type problem struct {
	Message string `json:"message"`
}

// Query asks a GraphQL query or mutation and decodes its data. An answer of more than most
// bytes is CodeTooLarge.
func (c *Client) Query(ctx context.Context, document string, variables map[string]any, most int64, into any) error {
	return c.again(ctx, func(ctx context.Context) error { return c.query(ctx, document, variables, most, into) })
}

func (c *Client) query(ctx context.Context, document string, variables map[string]any, most int64, into any) error {
	answer, err := c.ask(ctx, document, variables)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err != nil {
		return later{model.Errorf(model.CodeUnavailable, "an answer of %s broke off: %v", c.Name, err), 0}
	}
	if int64(len(body)) > most {
		return model.Errorf(model.CodeTooLarge, "an answer of %s has more than %d MiB", c.Name, most>>20)
	}
	var doc struct {
		Data   json.RawMessage `json:"data"`
		Errors []problem       `json:"errors"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return c.noAnswer()
	}
	if err := c.problems(doc.Errors); err != nil {
		return err
	}
	if err := json.Unmarshal(doc.Data, into); err != nil {
		return model.Errorf(model.CodeInvalid, "%s answers in a form that is not known: %v", c.Name, err)
	}
	return nil
}

func (c *Client) noAnswer() error {
	return model.Errorf(model.CodeInvalid, "%s does not answer as a W&B server does", c.Name).WithHint("Check the address.")
}

func (c *Client) problems(all []problem) error {
	if len(all) == 0 {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "%s: %s", c.Name, model.Clip(all[0].Message))
}

// ask sends a GraphQL document once.
func (c *Client) ask(ctx context.Context, document string, variables map[string]any) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return nil, err
	}
	return c.post(ctx, "/graphql", body)
}

func (c *Client) post(ctx context.Context, path string, body []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Base.String(), "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	return c.send(ctx, q)
}

// Texts asks a query whose answer is a list of texts in the field name, which may be longer
// than memory is to be, and gives them one by one. After a broken answer begin is called
// and they come again.
func (c *Client) Texts(ctx context.Context, document string, variables map[string]any, name string, begin func(), each func(text string) error) error {
	return c.again(ctx, func(ctx context.Context) error {
		begin()
		answer, err := c.ask(ctx, document, variables)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		return c.texts(json.NewDecoder(answer.Body), name, each)
	})
}

func (c *Client) texts(d *json.Decoder, name string, each func(text string) error) error {
	broken := func(err error) error {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return c.noAnswer()
		}
		return later{model.Errorf(model.CodeUnavailable, "an answer of %s broke off: %v", c.Name, err), 0}
	}
	last := ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
		switch {
		case token == json.Delim('[') && last == "errors":
			var problems []problem
			for d.More() {
				var one problem
				if err := d.Decode(&one); err != nil {
					return broken(err)
				}
				problems = append(problems, one)
			}
			if err := c.problems(problems); err != nil {
				return err
			}
		case token == json.Delim('[') && last == name:
			for d.More() {
				var line string
				if err := d.Decode(&line); err != nil {
					return broken(err)
				}
				if err := each(line); err != nil {
					return err
				}
			}
		}
		last, _ = token.(string)
	}
}
