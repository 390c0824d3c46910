package uplink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// maxAnswer bounds what a server may answer to an open: 10,000 starts fit.
const maxAnswer = 16 << 20

// Server is one server's HTTP side.
type Server struct {
	url  *url.URL
	key  string
	http *http.Client
}

// Info is GET /api/v1/server.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	API     int    `json:"api"`
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	Auth    bool   `json:"auth"`
	TimeNs  int64  `json:"time_ns"`
}

// ErrUnreachable marks failures that say nothing about the request: no
// connection, or no answer of a Kymogram server.
var ErrUnreachable = errors.New("the server cannot be reached")

// errOlder is a server without the route of uploads that go on where they were cut.
var errOlder = model.Errorf(model.CodeUnavailable, "the server is older than this program and cannot take videos; they are kept here and go there once it is updated")

// ParseServer checks the address of a server and gives it in small letters,
// without a slash at its end. HOST:PORT alone means http.
func ParseServer(address string) (string, error) {
	text := strings.TrimSpace(address)
	bare := !strings.Contains(text, "://")
	if bare {
		text = "http://" + text
	}
	u, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || !plainAddress(u) || bare && u.Port() == "" || strings.ContainsAny(text, " \t\r\n?#") {
		return "", model.Errorf(model.CodeInvalid, "%q is not the address of a server", address).
			WithHint("an address looks like http://127.0.0.1:7070 or https://kymogram.example.org")
	}
	u.Host = strings.ToLower(u.Host)
	return u.String(), nil
}

// plainAddress reports whether an address is a scheme, a host, a port that can
// be and a path, and nothing else: a password has no place in it.
func plainAddress(u *url.URL) bool {
	if u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Hostname() == "" {
		return false
	}
	if strings.Contains(u.Hostname(), ":") != strings.HasPrefix(u.Host, "[") {
		return false
	}
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.Atoi(u.Port())
	return err == nil && port > 0 && port < 1<<16
}

// NewServer makes a client of a server; proxies and SSL_CERT_FILE are honoured.
func NewServer(address, key string) (*Server, error) {
	address, err := ParseServer(address)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: false, DisableKeepAlives: true, ExpectContinueTimeout: time.Second}
	return &Server{url: u, key: key, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(to *http.Request, via []*http.Request) error { return model.Redirected(via[0].URL, to.URL) },
	}}, nil
}

// do sends a request. Whatever kept the answer away is ErrUnreachable.
func (s *Server) do(req *http.Request) (*http.Response, error) {
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.http.Do(req)
	var moved *model.Error
	if errors.As(err, &moved) {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, moved)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return resp, nil
}

// Info asks the server who it is; the answer's time is for clock checks.
func (s *Server) Info(ctx context.Context) (Info, error) {
	var info Info
	err := s.call(ctx, http.MethodGet, "/api/v1/server", nil, &info)
	if err == nil && info.Name != "kymogram" {
		err = fmt.Errorf("%w: %s is not a Kymogram server", ErrUnreachable, s.url)
	}
	return info, err
}

// Open opens a run over HTTP, as init does.
func (s *Server) Open(ctx context.Context, open model.OpenRequest) (model.OpenResult, error) {
	var result model.OpenResult
	err := s.call(ctx, http.MethodPost, "/api/v1/open", open, &result)
	if err == nil && result.Run.IsZero() {
		err = fmt.Errorf("%w: %s did not name the run", ErrUnreachable, s.url)
	}
	return result, err
}

// CheckKey asks for something that needs the scope to read.
func (s *Server) CheckKey(ctx context.Context) error {
	return s.call(ctx, http.MethodGet, "/api/v1/projects?limit=1", nil, new(json.RawMessage))
}

func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		doc, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(doc)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url.String()+path, body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	return s.send(req, out)
}

// send asks with the key and reads the JSON of the answer, if one is wanted.
func (s *Server) send(req *http.Request, out any) error {
	resp, err := s.do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp.Status, doc)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(doc, out); err != nil {
		return fmt.Errorf("%w: it answered with something else than Kymogram's JSON", ErrUnreachable)
	}
	return nil
}

// head asks with the key for an answer that is all in its header. A refusal of
// such a request has no text.
func (s *Server) head(req *http.Request) (http.Header, error) {
	resp, err := s.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNoContent:
		return resp.Header, nil
	case http.StatusUnauthorized:
		return nil, model.Errorf(model.CodeUnauthenticated, "the server does not know the key")
	case http.StatusForbidden:
		return nil, model.Errorf(model.CodePermission, "the key may not upload files")
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return nil, errOlder
	}
	return nil, fmt.Errorf("%w: it answered %s", ErrUnreachable, resp.Status)
}

// refusal is the typed error of an answer.
func refusal(status string, doc []byte) error {
	var body struct {
		Error *model.Error `json:"error"`
	}
	if json.Unmarshal(doc, &body) != nil || body.Error == nil || body.Error.Code == "" {
		return fmt.Errorf("%w: it answered %s, which is no answer of Kymogram", ErrUnreachable, status)
	}
	return body.Error
}

// target is where gRPC goes: the server's own address unless it announces
// another. An announced wildcard or loopback host is that of the address.
func (s *Server) target(info Info) string {
	own := s.url.Host
	if s.url.Port() == "" {
		own = net.JoinHostPort(s.url.Hostname(), map[string]string{"http": "80", "https": "443"}[s.url.Scheme])
	}
	host, port, err := net.SplitHostPort(info.GRPC)
	if err != nil || info.GRPC == info.HTTP {
		return own
	}
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && (ip.IsUnspecified() || ip.IsLoopback()) {
		host = s.url.Hostname()
	}
	return net.JoinHostPort(host, port)
}

// discover asks for the gRPC address; a server that does not answer is tried at
// its own address. The error says why it does not.
func (s *Server) discover(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		info = Info{}
	}
	return s.target(info), err
}
