package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// secretBytes is 160 bits: older wandb clients demand exactly 40 characters.
const secretBytes = 20

// keyIDBytes names a key in lists; it is random and says nothing of the secret.
const keyIDBytes = 6

// KeySpec is what a new key shall be.
type KeySpec struct {
	Name      string  `json:"name"`
	Scopes    []Scope `json:"scopes"`
	Workspace string  `json:"workspace,omitempty"`
	Project   string  `json:"project,omitempty"`
	// Expires is the key's life from now, 0 for ever.
	Expires time.Duration `json:"-"`
}

const (
	maxKeyName = 128
	maxExpires = 10 * 365 * 24 * time.Hour
)

func (s KeySpec) check() error {
	if s.Name == "" || len(s.Name) > maxKeyName || !clean(s.Name) {
		return model.Errorf(model.CodeInvalid, "a key's name is 1 to %d bytes of text, without control characters and invisible ones", maxKeyName)
	}
	if !clean(s.Workspace + s.Project) {
		return model.Errorf(model.CodeInvalid, "the workspace and the project of a key are text, without control characters and invisible ones")
	}
	if len(s.Scopes) == 0 {
		return model.Errorf(model.CodeInvalid, "a key needs a scope: ingest, read or admin")
	}
	for _, scope := range s.Scopes {
		if !slices.Contains([]Scope{Ingest, Read, Admin}, scope) {
			return model.Errorf(model.CodeInvalid, "unknown scope %q: the scopes are ingest, read and admin", scope)
		}
	}
	if s.Project != "" && s.Workspace == "" {
		return model.Errorf(model.CodeInvalid, "a key for a project names its workspace too: WORKSPACE/PROJECT")
	}
	if s.Expires < 0 || s.Expires > maxExpires {
		return model.Errorf(model.CodeInvalid, "a key lives for more than 0 and at most %d days", int(maxExpires.Hours()/24))
	}
	return nil
}

// clean: lists and logs show the text, so nothing in it may steer a terminal,
// change the direction of what follows, or be invisible.
func clean(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// newKey makes a key of a spec from a secret.
func newKey(spec KeySpec, secret string, now time.Time) Key {
	scopes := slices.Clone(spec.Scopes)
	slices.Sort(scopes)
	k := Key{
		ID: randomHex(keyIDBytes), Name: spec.Name, SHA256: hashSecret(secret), Scopes: slices.Compact(scopes),
		Workspace: spec.Workspace, Project: spec.Project, CreatedNs: now.UnixNano(),
	}
	if spec.Expires > 0 {
		k.ExpiresNs = now.Add(spec.Expires).UnixNano()
	}
	return k
}

// newSecret is 40 lower-case hex characters.
func newSecret() string { return randomHex(secretBytes) }

func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return hex.EncodeToString(raw)
}

// hashSecret: the secrets are random, so a plain hash cannot be searched.
func hashSecret(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// wellFormed reports whether s looks like a key: no other text is looked up.
func wellFormed(s string) bool {
	if len(s) != 2*secretBytes {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
