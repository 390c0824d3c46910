package auth

import (
	"context"
	"crypto/subtle"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// SessionLife is how long a page stays signed in.
	SessionLife = 30 * 24 * time.Hour
	// LinkLife is how long a one-time link may wait to be opened.
	LinkLife = 15 * time.Minute
	maxLinks = 16
)

// SessionName names the keys behind page sessions in lists of keys.
const SessionName = "page session"

// Links are one-time links to the page. They live in memory only: a restart
// makes a new one.
type Links struct {
	now func() time.Time
	mu  sync.Mutex
	// open maps the hash of a token to its end.
	open map[[32]byte]time.Time
}

// NewLinks makes an empty set of links.
func NewLinks(now func() time.Time) *Links {
	return &Links{now: now, open: map[[32]byte]time.Time{}}
}

// Issue makes a token; when too many wait, the one that ends first goes.
func (l *Links) Issue() (token string, expires time.Time) {
	token = newSecret()
	expires = l.now().Add(LinkLife)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune()
	if len(l.open) >= maxLinks {
		l.dropOldest()
	}
	l.open[hashSecret(token)] = expires
	return token, expires
}

// redeem reports whether the token was open, and closes it.
func (l *Links) redeem(token string) bool {
	hash := hashSecret(token)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune()
	for open := range l.open {
		if subtle.ConstantTimeCompare(open[:], hash[:]) == 1 {
			delete(l.open, open)
			return true
		}
	}
	return false
}

func (l *Links) prune() {
	now := l.now()
	for hash, end := range l.open {
		if !now.Before(end) {
			delete(l.open, hash)
		}
	}
}

func (l *Links) dropOldest() {
	var oldest [32]byte
	var first time.Time
	for hash, end := range l.open {
		if first.IsZero() || end.Before(first) {
			oldest, first = hash, end
		}
	}
	delete(l.open, oldest)
}

// Session is what the page's cookie holds.
type Session struct {
	Secret  string
	KeyID   string // empty with --no-auth
	Expires time.Time
}

// SignIn trades a one-time link's token for a new admin session, which is a key
// of its own: stored hashed, listed and revocable. An API key may be traded too;
// the session is then that key, so it ends with it.
func (k *Keyring) SignIn(ctx context.Context, links *Links, token string) (Session, error) {
	if k.open {
		return Session{}, nil // nothing to prove, so no cookie either
	}
	if links.redeem(token) {
		spec := KeySpec{Name: SessionName, Scopes: []Scope{Admin}, Expires: SessionLife}
		secret, key, err := k.Create(ctx, spec)
		if err != nil {
			return Session{}, err
		}
		return Session{secret, key.ID, time.Unix(0, key.ExpiresNs)}, nil
	}
	p, err := k.Authenticate(ctx, token)
	if err != nil {
		return Session{}, usedLink()
	}
	return Session{token, p.KeyID, k.now().Add(SessionLife)}, nil
}

// LoginPrefix begins the names of keys that a one-time link was traded for. Such a key may
// end itself.
const LoginPrefix = "login "

// Trade gives a new key for the token of a one-time link. LoginPrefix is put before its name.
func (k *Keyring) Trade(ctx context.Context, links *Links, token string, spec KeySpec) (secret string, key Key, err error) {
	if k.open {
		return "", Key{}, model.Errorf(model.CodeInvalid, "this server checks no keys (--no-auth): nobody needs to sign in")
	}
	spec.Name = LoginPrefix + spec.Name
	if err := spec.check(); err != nil { // the link stays good
		return "", Key{}, err
	}
	if !links.redeem(token) {
		return "", Key{}, usedLink()
	}
	return k.Create(ctx, spec)
}

// Own is the caller's key, nil with --no-auth.
func (k *Keyring) Own(ctx context.Context) (*Key, error) {
	if k.open {
		return nil, nil
	}
	p := PrincipalOf(ctx)
	if p == nil {
		return nil, unauthenticated("no API key was given")
	}
	return k.find(ctx, p.hash)
}

// EndOwn revokes the caller's key, if it was made by a login, and returns its id.
func (k *Keyring) EndOwn(ctx context.Context) (id string, err error) {
	key, err := k.Own(ctx)
	if err != nil || key == nil {
		return "", err
	}
	if !strings.HasPrefix(key.Name, LoginPrefix) {
		return "", model.Errorf(model.CodePermission, "the key %q was not made by kymogram login, so it does not end itself", key.Name).
			WithHint("an admin ends it with: kymogram key revoke %s", key.ID)
	}
	return key.ID, k.Revoke(ctx, key.ID)
}

func usedLink() *model.Error {
	return unauthenticated("this link was used before or is older than 15 minutes").
		WithHint("make a new one with: kymogram key link")
}

// SignOut ends a page's session and returns the id of its key, "" when the secret is
// none of a session that lives. A key that was traded for the cookie is not revoked.
func (k *Keyring) SignOut(ctx context.Context, secret string) (keyID string, err error) {
	if k.open || !wellFormed(secret) {
		return "", nil
	}
	p, err := k.byHash(ctx, hashSecret(secret))
	if model.CodeOf(err) == model.CodeUnauthenticated {
		return "", nil // it has ended already
	}
	if err != nil {
		return "", err
	}
	if p.Name == SessionName {
		err = k.Revoke(ctx, p.KeyID)
	}
	return p.KeyID, err
}
