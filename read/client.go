package read

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

const defaultServer = "http://127.0.0.1:7070"

// Error is a server's refusal, with a machine-readable code and a hint.
type Error = model.Error

// Client reads from one server. It is safe for concurrent use.
type Client struct {
	base string
	key  string
	http *http.Client
}

// Dial makes a client; no connection is opened yet. An empty server is
// KYMOGRAM_SERVER, else http://127.0.0.1:7070; an empty key is KYMOGRAM_API_KEY,
// else the server's one in credentials.json of the user's configuration.
func Dial(server, key string) (*Client, error) {
	for _, choice := range []string{os.Getenv("KYMOGRAM_SERVER"), defaultServer} {
		if server == "" {
			server = choice
		}
	}
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	server = strings.TrimRight(server, "/")
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, model.Errorf(model.CodeInvalid, "%q is not the address of a server", server).
			WithHint("an address looks like %s or https://kymogram.example.org", defaultServer)
	}
	if key == "" {
		key = os.Getenv("KYMOGRAM_API_KEY")
	}
	if key == "" {
		if key, err = storedKey(server); err != nil {
			return nil, err
		}
	}
	return &Client{base: server, key: key, http: &http.Client{
		CheckRedirect: func(to *http.Request, via []*http.Request) error { return model.Redirected(via[0].URL, to.URL) },
	}}, nil
}

// storedKey looks a server up in credentials.json; no file is no error.
func storedKey(server string) (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", nil //nolint:nilerr // nowhere to look is no key
	}
	path := filepath.Join(folder, "kymogram", "credentials.json")
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the stored key: %w", err)
	}
	var keys map[string]string
	if err := json.Unmarshal(data, &keys); err != nil {
		return "", model.Errorf(model.CodeInvalid, "%s is damaged: %v", path, err).WithHint("repair or delete it, or give a key")
	}
	return keys[server], nil
}

// get decodes the answer to one request into doc; integers stay exact.
func (c *Client) get(ctx context.Context, path string, query url.Values, doc any) error {
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if moved := (*model.Error)(nil); errors.As(err, &moved) {
			return moved
		}
		return model.Errorf(model.CodeUnavailable, "cannot reach the server at %s: %v", c.base, err).
			WithHint("start it with `kymogram serve`, or name another")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if response.StatusCode >= 300 {
		return c.refusal(response.Status, body)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(doc); err != nil {
		return fmt.Errorf("the server at %s gave an answer that is none of Kymogram's: %w", c.base, err)
	}
	return nil
}

func (c *Client) refusal(status string, body []byte) error {
	var doc struct {
		Error *model.Error `json:"error"`
	}
	if json.Unmarshal(body, &doc) == nil && doc.Error != nil && doc.Error.Message != "" {
		return doc.Error
	}
	return model.Errorf(model.CodeUnavailable, "the server at %s answered %s, which is no answer of Kymogram", c.base, status).
		WithHint("is it another program, or a proxy?")
}
