package auth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// memory is a naive catalog of keys.
type memory struct {
	mu   sync.Mutex
	keys []auth.Key
	uses int
}

func (m *memory) PutKey(_ context.Context, k auth.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append(m.keys, k)
	return nil
}

func (m *memory) FindKey(_ context.Context, hash [32]byte) (*auth.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		if k.SHA256 == hash {
			return &k, nil
		}
	}
	return nil, model.Errorf(model.CodeNotFound, "no such key")
}

func (m *memory) ListKeys(context.Context) ([]auth.Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]auth.Key{}, m.keys...), nil
}

func (m *memory) RevokeKey(_ context.Context, id string, now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.keys {
		if m.keys[i].ID == id {
			m.keys[i].RevokedNs = now.UnixNano()
			return nil
		}
	}
	return model.Errorf(model.CodeNotFound, "no such key")
}

func (m *memory) UseKey(context.Context, string, time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uses++
	return nil
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func setup() (*auth.Keyring, *memory, *clock) {
	m, c := &memory{}, &clock{at: time.Unix(1_700_000_000, 0)}
	return auth.New(m, c.now, false), m, c
}

func create(t *testing.T, k *auth.Keyring, spec auth.KeySpec) (string, auth.Key) {
	t.Helper()
	secret, key, err := k.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func wantCode(t *testing.T, what string, err error, want model.Code) {
	t.Helper()
	if got := model.CodeOf(err); got != want {
		t.Errorf("%s: %v (%q), want %q", what, err, got, want)
	}
}

func TestSecretsAreRandomHexAndNotStored(t *testing.T) {
	k, m, _ := setup()
	seen := map[string]bool{}
	for range 100 {
		secret, _ := create(t, k, auth.KeySpec{Name: "n", Scopes: []auth.Scope{auth.Read}})
		if len(secret) != 40 || strings.Trim(secret, "0123456789abcdef") != "" || seen[secret] {
			t.Fatalf("bad secret %q", secret)
		}
		seen[secret] = true
	}
	for _, key := range m.keys {
		for secret := range seen {
			if strings.Contains(key.ID+key.Name, secret[:8]) {
				t.Fatal("a secret is stored")
			}
		}
	}
}

func TestScopesAndProjects(t *testing.T) {
	k, _, _ := setup()
	tests := []struct {
		spec               auth.KeySpec
		scope              auth.Scope
		workspace, project string
		want               model.Code
	}{
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}}, auth.Read, "w", "p", ""},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}}, auth.Ingest, "w", "p", model.CodePermission},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Ingest}}, auth.Read, "w", "p", model.CodePermission},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Ingest, auth.Read}}, auth.Admin, "w", "p", model.CodePermission},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Admin}}, auth.Ingest, "w", "p", ""},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w"}, auth.Read, "w", "any", ""},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w"}, auth.Read, "v", "p", model.CodePermission},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w", Project: "p"}, auth.Read, "w", "p", ""},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Read}, Workspace: "w", Project: "p"}, auth.Read, "w", "q", model.CodePermission},
		{auth.KeySpec{Scopes: []auth.Scope{auth.Admin}, Workspace: "w", Project: "p"}, auth.Read, "v", "p", model.CodePermission},
	}
	for _, test := range tests {
		test.spec.Name = "n"
		secret, _ := create(t, k, test.spec)
		p, err := k.Authenticate(t.Context(), secret)
		if err != nil {
			t.Fatal(err)
		}
		err = k.Allow(auth.WithPrincipal(t.Context(), p), test.scope, test.workspace, test.project)
		if got := model.CodeOf(err); got != test.want {
			t.Errorf("%+v %s %s/%s: %q, want %q", test.spec, test.scope, test.workspace, test.project, got, test.want)
		}
	}
	wantCode(t, "nobody", k.Allow(t.Context(), auth.Read, "w", "p"), model.CodeUnauthenticated)
}

func TestBadSpecs(t *testing.T) {
	k, _, _ := setup()
	read := []auth.Scope{auth.Read}
	for name, spec := range map[string]auth.KeySpec{
		"no name":                   {Scopes: read},
		"control character":         {Name: "a\x1b[31m", Scopes: read},
		"C1 control":                {Name: "a\u009b31m", Scopes: read},
		"bidi control":              {Name: "a\u202egnp.exe", Scopes: read},
		"bidi isolate":              {Name: "a\u2066b", Scopes: read},
		"zero width":                {Name: "ad\u200bmin", Scopes: read},
		"line separator":            {Name: "a\u2028b", Scopes: read},
		"not UTF-8":                 {Name: "a\xff", Scopes: read},
		"workspace with a control":  {Name: "n", Scopes: read, Workspace: "w\x1b[2J"},
		"project with a control":    {Name: "n", Scopes: read, Workspace: "w", Project: "p\u202e"},
		"long name":                 {Name: strings.Repeat("n", 129), Scopes: read},
		"no scope":                  {Name: "n"},
		"unknown scope":             {Name: "n", Scopes: []auth.Scope{"root"}},
		"project without workspace": {Name: "n", Scopes: read, Project: "p"},
		"negative life":             {Name: "n", Scopes: read, Expires: -1},
		"endless life":              {Name: "n", Scopes: read, Expires: 1 << 62},
	} {
		_, _, err := k.Create(t.Context(), spec)
		wantCode(t, name, err, model.CodeInvalid)
	}
}

func TestUnknownSecrets(t *testing.T) {
	k, _, _ := setup()
	for _, secret := range []string{"", "x", strings.Repeat("0", 40), strings.Repeat("A", 40), strings.Repeat("0", 39) + "\n", strings.Repeat("é", 20)} {
		_, err := k.Authenticate(t.Context(), secret)
		wantCode(t, secret, err, model.CodeUnauthenticated)
	}
}

func TestRevocationAndExpiry(t *testing.T) {
	k, m, c := setup()
	spec := auth.KeySpec{Name: "n", Scopes: []auth.Scope{auth.Read}, Expires: time.Hour}
	secret, key := create(t, k, spec)
	p, err := k.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	// Another process revokes: the cache may hide it for a second, not longer.
	if err := m.RevokeKey(t.Context(), key.ID, c.now()); err != nil {
		t.Fatal(err)
	}
	c.add(time.Second)
	wantCode(t, "revoked elsewhere", k.Recheck(t.Context(), p), model.CodeUnauthenticated)

	// Where the other process says so, it counts at once.
	for what, tell := range map[string]func(id string){"told of": k.Changed, "maybe told of": func(string) { k.AllChanged() }} {
		secret, key = create(t, k, spec)
		if p, err = k.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if err := m.RevokeKey(t.Context(), key.ID, c.now()); err != nil {
			t.Fatal(err)
		}
		if err := k.Recheck(t.Context(), p); err != nil {
			t.Errorf("it is not kept: %v", err)
		}
		tell(key.ID)
		wantCode(t, what, k.Recheck(t.Context(), p), model.CodeUnauthenticated)
	}

	secret, key = create(t, k, spec)
	if p, err = k.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := k.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "revoked here", k.Recheck(t.Context(), p), model.CodeUnauthenticated)

	secret, _ = create(t, k, spec)
	if p, err = k.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour)
	wantCode(t, "expired", k.Recheck(t.Context(), p), model.CodeUnauthenticated)
	wantCode(t, "unknown id", k.Revoke(t.Context(), "nope"), model.CodeNotFound)
}

func TestLastUseIsWrittenNowAndThen(t *testing.T) {
	k, m, c := setup()
	secret, _ := create(t, k, auth.KeySpec{Name: "n", Scopes: []auth.Scope{auth.Read}})
	for range 120 {
		if _, err := k.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		c.add(time.Second)
	}
	if m.uses != 2 {
		t.Fatalf("%d writes in two minutes, want 2", m.uses)
	}
}

func TestLinksAreGoodOnceAndFor15Minutes(t *testing.T) {
	k, m, c := setup()
	links := auth.NewLinks(c.now)
	token, _ := links.Issue()
	session, err := k.SignIn(t.Context(), links, token)
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Authenticate(t.Context(), session.Secret)
	if err != nil || !p.Everywhere(auth.Admin) {
		t.Fatalf("%+v, %v", p, err)
	}
	_, err = k.SignIn(t.Context(), links, token)
	wantCode(t, "used twice", err, model.CodeUnauthenticated)

	token, _ = links.Issue()
	c.add(auth.LinkLife)
	_, err = k.SignIn(t.Context(), links, token)
	wantCode(t, "too late", err, model.CodeUnauthenticated)
	_, err = k.SignIn(t.Context(), links, "")
	wantCode(t, "no token", err, model.CodeUnauthenticated)

	c.add(auth.SessionLife)
	_, err = k.Authenticate(t.Context(), session.Secret)
	wantCode(t, "old session", err, model.CodeUnauthenticated)
	if len(m.keys) != 1 {
		t.Fatalf("%d keys, want the session's only", len(m.keys))
	}
}

func TestSignInWithAKey(t *testing.T) {
	k, _, c := setup()
	secret, _ := create(t, k, auth.KeySpec{Name: "reader", Scopes: []auth.Scope{auth.Read}})
	session, err := k.SignIn(t.Context(), auth.NewLinks(c.now), secret)
	if err != nil || session.Secret != secret {
		t.Fatalf("%+v, %v", session, err)
	}
}

func TestOnlySoManyLinksWait(t *testing.T) {
	k, _, c := setup()
	links := auth.NewLinks(c.now)
	first, _ := links.Issue()
	for range 16 {
		c.add(time.Second)
		links.Issue()
	}
	_, err := k.SignIn(t.Context(), links, first)
	wantCode(t, "the oldest of 17", err, model.CodeUnauthenticated)
}

func TestBootstrap(t *testing.T) {
	k, m, c := setup()
	dir := t.TempDir()
	secret, err := k.Bootstrap(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, auth.AdminKeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	p, err := k.Authenticate(t.Context(), secret)
	if err != nil || !p.Everywhere(auth.Admin) {
		t.Fatalf("%+v, %v", p, err)
	}
	again, err := k.Bootstrap(t.Context(), dir, "")
	if err != nil || again != secret || len(m.keys) != 1 {
		t.Fatalf("the second start: %q, %v, %d keys", again, err, len(m.keys))
	}

	// A new catalog adopts the file's key; a revoked one stays revoked.
	fresh := auth.New(&memory{}, c.now, false)
	if _, err := fresh.Bootstrap(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := k.Revoke(t.Context(), p.KeyID); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Bootstrap(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	_, err = k.Authenticate(t.Context(), secret)
	wantCode(t, "revoked admin key", err, model.CodeUnauthenticated)

	if err := os.WriteFile(filepath.Join(dir, auth.AdminKeyFile), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = k.Bootstrap(t.Context(), dir, "")
	wantCode(t, "a damaged file", err, model.CodeInvalid)
}

// A file that others may have read or written proves nothing.
func TestBootstrapTakesOnlyAPrivateFile(t *testing.T) {
	k, m, _ := setup()
	file := filepath.Join(t.TempDir(), auth.AdminKeyFile)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o666: false, 0o620: false} {
		_ = os.Remove(file)
		if err := errors.Join(os.WriteFile(file, []byte(strings.Repeat("0f", 20)), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		_, err := k.Bootstrap(t.Context(), filepath.Dir(file), "")
		if ok != (err == nil) || !ok && model.CodeOf(err) != model.CodePermission {
			t.Errorf("%o: %v", mode, err)
		}
		if !ok && len(m.keys) > 0 {
			t.Errorf("%o: the key was adopted", mode)
		}
		m.keys = nil
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := errors.Join(os.Chmod(file, 0o600), os.Chown(file, 65534, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Bootstrap(t.Context(), filepath.Dir(file), ""); model.CodeOf(err) != model.CodePermission || len(m.keys) > 0 {
		t.Errorf("another user's: %v, %d keys", err, len(m.keys))
	}
}

func TestBootstrapWithoutTheFileButAnAdmin(t *testing.T) {
	k, m, _ := setup()
	create(t, k, auth.KeySpec{Name: "ops", Scopes: []auth.Scope{auth.Admin}})
	secret, err := k.Bootstrap(t.Context(), t.TempDir(), "")
	if err != nil || secret != "" || len(m.keys) != 1 {
		t.Fatalf("%q, %v, %d keys", secret, err, len(m.keys))
	}
}

func TestBootstrapWithAGivenKey(t *testing.T) {
	k, _, _ := setup()
	given := strings.Repeat("0f", 20)
	if secret, err := k.Bootstrap(t.Context(), t.TempDir(), given); err != nil || secret != given {
		t.Fatalf("%q, %v", secret, err)
	}
	if _, err := k.Authenticate(t.Context(), given); err != nil {
		t.Fatal(err)
	}
}

func TestOpenTakesAnyKeyAndNone(t *testing.T) {
	k := auth.New(&memory{}, time.Now, true)
	for _, secret := range []string{"", "anything", strings.Repeat("0", 40)} {
		p, err := k.Authenticate(t.Context(), secret)
		if err != nil || !p.Everywhere(auth.Admin) {
			t.Fatalf("%q: %+v, %v", secret, p, err)
		}
	}
	if err := k.Allow(t.Context(), auth.Admin, "w", "p"); err != nil {
		t.Fatal(err)
	}
}

func TestCredentialsAreMerged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config", "kymogram", "credentials.json")
	save := func(key string, addresses ...string) {
		t.Helper()
		if err := auth.SaveCredentials(t.Context(), path, key, addresses...); err != nil {
			t.Fatal(err)
		}
	}
	save("other", "https://example.org")
	save("mine", "http://127.0.0.1:1111", "http://localhost:1111")
	save("mine", "http://127.0.0.1:2222") // the server moved
	got, err := auth.Credentials(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"https://example.org": "other", "http://127.0.0.1:2222": "mine"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a damaged file", auth.SaveCredentials(t.Context(), path, "k", "http://127.0.0.1:1"), model.CodeInvalid)
}

// A server that still runs keeps its entry when its backup, which has the same key, is served
// at another port.
func TestCredentialsOfAServerAndItsCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials.json")
	running := httptest.NewServer(http.NotFoundHandler())
	defer running.Close()
	if err := errors.Join(auth.SaveCredentials(t.Context(), path, "k", running.URL), auth.SaveCredentials(t.Context(), path, "k", "http://127.0.0.1:2")); err != nil {
		t.Fatal(err)
	}
	got, err := auth.Credentials(path)
	if want := map[string]string{running.URL: "k", "http://127.0.0.1:2": "k"}; err != nil || cmp.Diff(want, got) != "" {
		t.Fatal(got, err)
	}
}

// The file that clients read is the one of docs/format/credentials.md, byte for byte.
func TestCredentialsAreTheGoldenFile(t *testing.T) {
	want, err := os.ReadFile("../../../testdata/credentials/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kymogram", "credentials.json")
	digits := "0123456789abcdef"
	local, far := digits+digits+digits[:8], digits[8:]+digits+digits
	if err := errors.Join(auth.SaveCredentials(t.Context(), path, far, "https://far.example"),
		auth.SaveCredentials(t.Context(), path, local, "http://localhost:7070", "http://127.0.0.1:7070")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatal(diff)
	}
}

// Writers at one time lose none of the servers.
func TestCredentialsOfManyWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kymogram", "credentials.json")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := auth.SaveCredentials(t.Context(), path, "k", fmt.Sprintf("https://h%d.example", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := auth.Credentials(path); err != nil || len(got) != 50 {
		t.Fatalf("%d addresses, %v", len(got), err)
	}
}

func TestCredentialsPath(t *testing.T) {
	for want, vars := range map[string]map[string]string{
		"/x/kymogram/credentials.json":         {"XDG_CONFIG_HOME": "/x", "HOME": "/h"},
		"/h/.config/kymogram/credentials.json": {"HOME": "/h"},
		"":                                     {},
	} {
		if got := auth.CredentialsPath(func(name string) string { return vars[name] }); got != want {
			t.Errorf("%v: %q, want %q", vars, got, want)
		}
	}
}

// A file whose key was changed, or replaced, becomes no key: not even one that is well formed.
func TestBootstrapRefusesAnotherKey(t *testing.T) {
	k, m, _ := setup()
	dir := t.TempDir()
	if _, err := k.Bootstrap(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	file, other := filepath.Join(dir, auth.AdminKeyFile), strings.Repeat("0f", 20)
	if err := os.WriteFile(file, []byte(other+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Bootstrap(t.Context(), dir, ""); model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want an error that names the file", err)
	}
	if _, err := k.Authenticate(t.Context(), other); err == nil || len(m.keys) != 1 {
		t.Errorf("the key was adopted: %d keys", len(m.keys))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if secret, err := k.Bootstrap(t.Context(), dir, ""); err != nil || secret != "" {
		t.Errorf("without the file: %q, %v", secret, err)
	}
}

// The first start tells this user's clients the admin key, under both names of this
// machine. Where they cannot be told the server starts all the same.
func TestShare(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	k, quiet := auth.New(&memory{}, time.Now, false), slog.New(slog.DiscardHandler)
	if err := k.Share(t.Context(), dir, "", "http://127.0.0.1:7070", env, quiet); err != nil {
		t.Fatal(err)
	}
	admin, err := os.ReadFile(filepath.Join(dir, auth.AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.Credentials(auth.CredentialsPath(env))
	if secret := strings.TrimSpace(string(admin)); err != nil || len(keys) != 2 || keys["http://127.0.0.1:7070"] != secret || keys["http://localhost:7070"] != secret {
		t.Errorf("%v, %v", keys, err)
	}
	if err := k.Share(t.Context(), dir, "", "https://example.org", env, quiet); err != nil {
		t.Error(err)
	}
	if keys, err := auth.Credentials(auth.CredentialsPath(env)); err != nil || keys["https://example.org"] == "" || keys["https://localhost:"] != "" {
		t.Errorf("%v, %v", keys, err)
	}
	nowhere := func(string) string { return "" }
	if err := k.Share(t.Context(), dir, "", "http://127.0.0.1:7070", nowhere, quiet); err != nil {
		t.Error(err)
	}
}

// TestTrade: a link becomes one key, whoever asks at once, and only such a key ends itself.
func TestTrade(t *testing.T) {
	k, store, c := setup()
	links := auth.NewLinks(c.now)
	token, _ := links.Issue()
	for name, spec := range map[string]auth.KeySpec{
		"no scope": {Name: "x"}, "a control character": {Name: "a\nb", Scopes: []auth.Scope{auth.Read}}, "no time": {Name: "x", Scopes: []auth.Scope{auth.Read}, Expires: -1},
	} {
		if _, _, err := k.Trade(t.Context(), links, token, spec); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	spec := auth.KeySpec{Name: "lab", Scopes: []auth.Scope{auth.Read}}
	var group sync.WaitGroup
	secrets := make(chan string, 64)
	for range cap(secrets) {
		group.Go(func() {
			if secret, _, err := k.Trade(t.Context(), links, token, spec); err == nil {
				secrets <- secret
			} else if model.CodeOf(err) != model.CodeUnauthenticated {
				t.Error(err)
			}
		})
	}
	group.Wait()
	close(secrets)
	if len(secrets) != 1 || len(store.keys) != 1 {
		t.Fatalf("%d keys of one link, %d stored", len(secrets), len(store.keys))
	}
	p, err := k.Authenticate(t.Context(), <-secrets)
	if err != nil || p.Name != "login lab" || p.Has(auth.Ingest) {
		t.Fatalf("%+v, %v", p, err)
	}
	if id, err := k.EndOwn(auth.WithPrincipal(t.Context(), p)); err != nil || id != p.KeyID {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := k.Own(auth.WithPrincipal(t.Context(), p)); err != nil {
		t.Errorf("a key that was just let in: %v", err)
	}
	secret, _, err := k.Create(t.Context(), auth.KeySpec{Name: "other", Scopes: []auth.Scope{auth.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = k.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := k.EndOwn(auth.WithPrincipal(t.Context(), p)); model.CodeOf(err) != model.CodePermission {
		t.Errorf("a key that no login made: %v", err)
	}
	if _, _, err := auth.New(store, c.now, true).Trade(t.Context(), links, token, spec); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("without keys: %v", err)
	}
}
