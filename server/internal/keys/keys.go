package keys

import (
	"context"
	"net/http"
	"time"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// Remote is the keys of a running server.
type Remote struct{ Server *remote.Client }

// Create makes a key; only this answer holds its secret.
func (r Remote) Create(ctx context.Context, request auth.Request) (doc auth.Document, err error) {
	return doc, r.Server.Exchange(ctx, http.MethodPost, "/api/v1/keys", request, &doc)
}

// List gives all keys, the newest first.
func (r Remote) List(ctx context.Context) ([]auth.Document, error) {
	var doc struct {
		Keys []auth.Document `json:"keys"`
	}
	err := r.Server.Exchange(ctx, http.MethodGet, "/api/v1/keys", nil, &doc)
	return doc.Keys, err
}

// Revoke ends a key for good.
func (r Remote) Revoke(ctx context.Context, id string) error {
	response, err := r.Server.Send(ctx, http.MethodDelete, "/api/v1/keys/"+id, nil, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Link signs a browser in, once.
type Link struct {
	Link      string `json:"link"`
	ExpiresNs int64  `json:"expires_ns"`
}

// Link makes a link.
func (r Remote) Link(ctx context.Context) (l Link, err error) {
	return l, r.Server.Exchange(ctx, http.MethodPost, "/api/v1/links", struct{}{}, &l)
}

// Publish makes the key of a public link.
func (r Remote) Publish(ctx context.Context, request auth.Request) (Published, error) {
	doc, err := r.Create(ctx, request)
	return Published{ID: doc.ID, Link: PublicAddress(r.Server.Base, doc), Project: doc.Workspace + "/" + doc.Project}, err
}

// Trade gives a new key for the token of a one-time link.
func (r Remote) Trade(ctx context.Context, token string, request auth.Request) (doc auth.Document, err error) {
	body := struct {
		auth.Request
		Token string `json:"token"`
	}{request, token}
	return doc, r.Server.Exchange(ctx, http.MethodPost, "/api/v1/session/key", body, &doc)
}

// Own describes the key that the server is asked with.
func (r Remote) Own(ctx context.Context) (doc auth.Document, err error) {
	return doc, r.Server.Exchange(ctx, http.MethodGet, "/api/v1/key", nil, &doc)
}

// EndOwn ends the key that the server is asked with.
func (r Remote) EndOwn(ctx context.Context) error {
	response, err := r.Server.Send(ctx, http.MethodDelete, "/api/v1/key", nil, nil)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// Folder is the keys in a data folder.
type Folder struct{ Keyring *auth.Keyring }

// Create makes a key; only this answer holds its secret.
func (f Folder) Create(ctx context.Context, request auth.Request) (auth.Document, error) {
	request.Expires = time.Duration(request.ExpiresSeconds) * time.Second
	secret, key, err := f.Keyring.Create(ctx, request.KeySpec)
	doc := auth.NewDocument(key, time.Now())
	doc.Key = secret
	return doc, err
}

// List gives all keys, the newest first.
func (f Folder) List(ctx context.Context) ([]auth.Document, error) {
	keys, err := f.Keyring.List(ctx)
	return auth.Documents(keys, time.Now()), err
}

// Revoke ends a key for good.
func (f Folder) Revoke(ctx context.Context, id string) error { return f.Keyring.Revoke(ctx, id) }
