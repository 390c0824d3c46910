package auth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// recheckEvery bounds how long a revoked key lives on in the cache, also when another
// process revoked it. In this process a revocation counts at once.
const recheckEvery = time.Second

// useEvery bounds how often the last use of a key is written.
const useEvery = time.Minute

// Keys is where the keys live (the catalog).
type Keys interface {
	PutKey(ctx context.Context, k Key) error
	FindKey(ctx context.Context, sha256 [32]byte) (*Key, error)
	ListKeys(ctx context.Context) ([]Key, error)
	RevokeKey(ctx context.Context, id string, now time.Time) error
	UseKey(ctx context.Context, id string, now time.Time) error
}

// Keyring checks keys and makes them.
type Keyring struct {
	keys Keys
	now  func() time.Time
	open bool
	// firstUse hears of keys that are used for the first time; nil without a listener.
	firstUse func(context.Context, Key)

	mu     sync.Mutex
	cached map[[32]byte]cachedKey // found keys only, so at most as many as there are
}

type cachedKey struct {
	key     Key
	checked time.Time
	used    time.Time
}

// New makes a keyring. open is --no-auth: any key or none is accepted.
func New(keys Keys, now func() time.Time, open bool) *Keyring {
	return &Keyring{keys: keys, now: now, open: open, cached: map[[32]byte]cachedKey{}}
}

// OnFirstUse names who hears of each key that is used for the first time. It is set
// before the first request.
func (k *Keyring) OnFirstUse(hear func(context.Context, Key)) { k.firstUse = hear }

// Open reports whether keys are not checked at all.
func (k *Keyring) Open() bool { return k.open }

// Authenticate finds the caller behind a secret.
func (k *Keyring) Authenticate(ctx context.Context, secret string) (*Principal, error) {
	if k.open {
		return &Principal{Name: "anyone", open: true}, nil
	}
	if secret == "" {
		return nil, unauthenticated("no API key was given")
	}
	if !wellFormed(secret) {
		return nil, unauthenticated("this is not an API key: a key is 40 lower-case hexadecimal characters")
	}
	return k.byHash(ctx, hashSecret(secret))
}

// Recheck fails when the caller's key was revoked or has expired since.
func (k *Keyring) Recheck(ctx context.Context, p *Principal) error {
	if k.open {
		return nil
	}
	if p == nil {
		return unauthenticated("no API key was given")
	}
	_, err := k.byHash(ctx, p.hash)
	return err
}

// Allow fails unless the context's caller holds the scope in the project.
func (k *Keyring) Allow(ctx context.Context, scope Scope, workspace, project string) error {
	if k.open {
		return nil
	}
	p := PrincipalOf(ctx)
	if err := Require(ctx, scope); err != nil {
		return err
	}
	if err := k.Recheck(ctx, p); err != nil {
		return err
	}
	if !p.May(scope, workspace, project) {
		return denied(p, "the key %q may not %s in %s/%s", p.Name, scope, workspace, project)
	}
	return nil
}

// Reach is where the key of the context's caller holds, each empty for everywhere.
func (k *Keyring) Reach(ctx context.Context) (workspace, project string) {
	if p := PrincipalOf(ctx); p != nil && !k.open {
		return p.Workspace, p.Project
	}
	return "", ""
}

func (k *Keyring) byHash(ctx context.Context, hash [32]byte) (*Principal, error) {
	key, err := k.find(ctx, hash)
	if err != nil {
		return nil, err
	}
	now := k.now()
	switch {
	case subtle.ConstantTimeCompare(key.SHA256[:], hash[:]) != 1:
		return nil, unauthenticated("this API key is not known here")
	case key.RevokedNs != 0:
		return nil, refusedKey{unauthenticated("this API key was revoked"), key.ID}
	case key.ExpiresNs != 0 && now.UnixNano() >= key.ExpiresNs:
		return nil, refusedKey{unauthenticated("this API key has expired"), key.ID}
	}
	k.markUse(ctx, hash, now)
	return &Principal{
		KeyID: key.ID, Name: key.Name, Scopes: key.Scopes,
		Workspace: key.Workspace, Project: key.Project, hash: hash,
	}, nil
}

func (k *Keyring) find(ctx context.Context, hash [32]byte) (*Key, error) {
	now := k.now()
	k.mu.Lock()
	hit, ok := k.cached[hash]
	k.mu.Unlock()
	if age := now.Sub(hit.checked); ok && age >= 0 && age < recheckEvery {
		return &hit.key, nil
	}
	key, err := k.keys.FindKey(ctx, hash)
	if model.CodeOf(err) == model.CodeNotFound {
		k.forget(hash)
		return nil, unauthenticated("this API key is not known here")
	}
	if err != nil {
		return nil, fmt.Errorf("look up API key: %w", err)
	}
	k.mu.Lock()
	k.cached[hash] = cachedKey{key: *key, checked: now, used: hit.used}
	k.mu.Unlock()
	return key, nil
}

func (k *Keyring) forget(hash [32]byte) {
	k.mu.Lock()
	delete(k.cached, hash)
	k.mu.Unlock()
}

// markUse writes the last use now and then; that a write fails is no reason to
// turn the caller away.
func (k *Keyring) markUse(ctx context.Context, hash [32]byte, now time.Time) {
	k.mu.Lock()
	entry, ok := k.cached[hash]
	due := ok && now.Sub(entry.used) >= useEvery
	first := due && entry.used.IsZero() && entry.key.LastNs == 0
	if due {
		entry.used = now
		k.cached[hash] = entry
	}
	k.mu.Unlock()
	if first && k.firstUse != nil {
		k.firstUse(ctx, entry.key)
	}
	if due {
		_ = k.keys.UseKey(context.WithoutCancel(ctx), entry.key.ID, now)
	}
}

// Create makes and stores a key; the secret is shown here and never again.
func (k *Keyring) Create(ctx context.Context, spec KeySpec) (secret string, key Key, err error) {
	if err := spec.check(); err != nil {
		return "", Key{}, err
	}
	secret = newSecret()
	key = newKey(spec, secret, k.now())
	if err := k.keys.PutKey(ctx, key); err != nil {
		return "", Key{}, fmt.Errorf("store API key: %w", err)
	}
	return secret, key, nil
}

// List returns every key, revoked and expired ones included.
func (k *Keyring) List(ctx context.Context) ([]Key, error) {
	keys, err := k.keys.ListKeys(ctx)
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return keys, nil
}

// Revoke ends a key for good, at once in this process.
func (k *Keyring) Revoke(ctx context.Context, id string) error {
	if err := k.keys.RevokeKey(ctx, id, k.now()); err != nil {
		return fmt.Errorf("revoke API key: %w", err)
	}
	k.Changed(id)
	return nil
}

// Changed says that a key was changed, maybe by another server: it is looked up again.
func (k *Keyring) Changed(id string) {
	k.recheck(func(key *Key) bool { return key.ID == id })
}

// AllChanged is Changed for every key.
func (k *Keyring) AllChanged() {
	k.recheck(func(*Key) bool { return true })
}

// recheck makes what is known of some keys old. When they were used last stays known.
func (k *Keyring) recheck(some func(*Key) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for hash, entry := range k.cached {
		if some(&entry.key) {
			entry.checked = time.Time{}
			k.cached[hash] = entry
		}
	}
}
