package substrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

const (
	// maxMessage holds metadata (300 kB, twice that in hex) and large blocks.
	maxMessage = 32 << 20
	// maxNotes is how many notifications may wait while a call is answered.
	maxNotes = 1024
	// callTimeout is for one call without an answer; metadata takes longest.
	callTimeout = 30 * time.Second
	dialTimeout = 10 * time.Second
	// maxSilence is how long a watched connection may say nothing. Watching may take
	// minutes, so after a third of it the node is asked for its health.
	maxSilence = 30 * time.Second
)

// TransportError says that an endpoint was not reached or the connection broke:
// nothing is known of what was asked.
type TransportError struct {
	Endpoint string
	Err      error
	// Sent says that an extrinsic may have left before.
	Sent bool
}

func (e *TransportError) Error() string { return fmt.Sprintf("%s: %v", e.Endpoint, e.Err) }
func (e *TransportError) Unwrap() error { return e.Err }

// RPCError is a node's answer that refuses a call.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *RPCError) Error() string {
	if text := e.detail(); text != "" {
		return fmt.Sprintf("%s: %s (code %d)", e.Message, text, e.Code)
	}
	return fmt.Sprintf("%s (code %d)", e.Message, e.Code)
}

// detail is the data as text.
func (e *RPCError) detail() string {
	var text string
	if len(e.Data) == 0 || string(e.Data) == "null" {
		return ""
	}
	if json.Unmarshal(e.Data, &text) != nil {
		text = string(e.Data)
	}
	return text
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      uint64 `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type message struct {
	ID     *uint64         `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
	Method string          `json:"method"`
	Params *note           `json:"params"`
}

// note is one notification of a subscription, whose id is text or a number.
type note struct {
	Subscription json.RawMessage `json:"subscription"`
	Result       json.RawMessage `json:"result"`
}

// conn is one connection. One goroutine uses it at a time, and reads while it
// waits; there is no other reader.
type conn struct {
	ws       *websocket.Conn
	endpoint string
	last     uint64
	notes    []note
	silence  time.Duration
}

// checkEndpoint refuses what is no WebSocket address.
func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Host == "" {
		return fmt.Errorf("%q is not the WebSocket address of a node", text)
	}
	return nil
}

// shown is an endpoint without a key that its path or user may hold.
func shown(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "endpoint"
	}
	return u.Scheme + "://" + u.Host
}

func dial(ctx context.Context, endpoint string, client *http.Client) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	ws, _, err := websocket.Dial(limited, endpoint, &websocket.DialOptions{HTTPClient: client}) //nolint:bodyclose // Dial says that its caller never has to
	if err != nil {
		return nil, transport(ctx, endpoint, fmt.Errorf("connect: %w", err))
	}
	ws.SetReadLimit(maxMessage)
	return &conn{ws: ws, endpoint: endpoint}, nil
}

// transport is err as a TransportError, unless the caller itself gave up.
func transport(ctx context.Context, endpoint string, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	var request *url.Error
	if errors.As(err, &request) { // it quotes the whole address
		err = request.Err
	}
	return &TransportError{Endpoint: shown(endpoint), Err: err}
}

func (c *conn) close() { _ = c.ws.CloseNow() }

// call asks and reads until the answer is there.
func (c *conn) call(ctx context.Context, out any, method string, params ...any) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if params == nil {
		params = []any{}
	}
	c.last++
	if err := wsjson.Write(limited, c.ws, request{"2.0", c.last, method, params}); err != nil {
		return transport(ctx, c.endpoint, fmt.Errorf("send %s: %w", method, err))
	}
	for {
		m, err := c.read(limited)
		switch {
		case err != nil:
			return transport(ctx, c.endpoint, fmt.Errorf("answer to %s: %w", method, err))
		case m.ID == nil || *m.ID != c.last:
			continue
		case m.Error != nil:
			return m.Error
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(m.Result, out); err != nil {
			return fmt.Errorf("the node's answer to %s has an unknown form: %w", method, err)
		}
		return nil
	}
}

// read takes one message; notifications are kept for next.
func (c *conn) read(ctx context.Context) (message, error) {
	var m message
	if err := wsjson.Read(ctx, c.ws, &m); err != nil {
		return m, err
	}
	if m.Params != nil {
		if len(c.notes) == maxNotes {
			return m, errors.New("too many notifications")
		}
		c.notes = append(c.notes, *m.Params)
	}
	return m, nil
}

// next waits for the next notification of a subscription.
func (c *conn) next(ctx context.Context, subscription json.RawMessage) (json.RawMessage, error) {
	for {
		for len(c.notes) > 0 {
			n := c.notes[0]
			c.notes = c.notes[1:]
			if string(n.Subscription) == string(subscription) {
				return n.Result, nil
			}
		}
		if err := c.listen(ctx); err != nil {
			return nil, transport(ctx, c.endpoint, fmt.Errorf("watch: %w", err))
		}
	}
}

// listen takes one message of a node that is alive: one that has nothing to tell
// answers for its health. No call waits for that answer, so its number is 0.
func (c *conn) listen(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, c.silence, fmt.Errorf("the node said nothing for %s", c.silence))
	defer cancel()
	asks := time.AfterFunc(c.silence/3, func() {
		// With a limit of its own, whatever becomes of ctx: to end it while it writes would
		// end the connection, and the answer may come before the writer is done.
		writing, done := context.WithTimeout(context.WithoutCancel(ctx), c.silence)
		defer done()
		_ = wsjson.Write(writing, c.ws, request{"2.0", 0, "system_health", []any{}}) // reading fails too
	})
	defer asks.Stop()
	_, err := c.read(limited)
	if err != nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}
