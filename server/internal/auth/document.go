package auth

import (
	"slices"
	"time"
)

// Document is a key as the API shows it.
type Document struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Scopes    []Scope `json:"scopes"`
	Workspace string  `json:"workspace,omitempty"`
	Project   string  `json:"project,omitempty"`
	State     string  `json:"state"` // valid, expired, revoked
	CreatedNs int64   `json:"created_ns"`
	ExpiresNs int64   `json:"expires_ns,omitempty"`
	RevokedNs int64   `json:"revoked_ns,omitempty"`
	LastNs    int64   `json:"last_ns,omitempty"`
	// Key is the secret, in the answer to its creation only.
	Key string `json:"key,omitempty"`
}

// NewDocument describes a key at a time.
func NewDocument(k Key, now time.Time) Document {
	doc := Document{
		ID: k.ID, Name: k.Name, Scopes: k.Scopes, Workspace: k.Workspace, Project: k.Project, State: "valid",
		CreatedNs: k.CreatedNs, ExpiresNs: k.ExpiresNs, RevokedNs: k.RevokedNs, LastNs: k.LastNs,
	}
	switch {
	case k.RevokedNs != 0:
		doc.State = "revoked"
	case k.ExpiresNs != 0 && now.UnixNano() >= k.ExpiresNs:
		doc.State = "expired"
	}
	return doc
}

// Request is the body that makes a key.
type Request struct {
	KeySpec
	ExpiresSeconds int64 `json:"expires_seconds,omitempty"`
}

// Documents describes keys, newest first.
func Documents(keys []Key, now time.Time) []Document {
	docs := make([]Document, 0, len(keys))
	for _, k := range keys {
		docs = append(docs, NewDocument(k, now))
	}
	slices.SortStableFunc(docs, func(a, b Document) int { return int(min(1, max(-1, b.CreatedNs-a.CreatedNs))) })
	return docs
}
