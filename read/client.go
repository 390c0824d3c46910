package read

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
	"github.com/kymogram/kymogram/internal/remote"
)

const defaultServer = "http://127.0.0.1:7070"

// Error is a server's refusal, with a machine-readable code and a hint.
type Error = model.Error

// Client reads from one server. It is safe for concurrent use.
type Client struct{ server *remote.Client }

// Over reads through a connection of this module's own programs; others use [Dial].
func Over(server *remote.Client) *Client { return &Client{server} }

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
	return Over(&remote.Client{Base: server, Key: key}), nil
}

// storedKey looks a server up in credentials.json.
func storedKey(server string) (string, error) {
	folder := platform.ConfigFolder(os.Getenv)
	if folder == "" {
		return "", nil
	}
	return remote.StoredKey(folder, server)
}

// get decodes the answer to one request into doc, which has no field of type any: integers
// stay exact.
func (c *Client) get(ctx context.Context, path string, query url.Values, doc any) error {
	response, err := c.server.Send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if err := json.Unmarshal(body, doc); err != nil {
		return fmt.Errorf("the server at %s gave an answer that is none of Kymogram's: %w", c.server.Base, err)
	}
	return nil
}
