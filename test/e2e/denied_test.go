//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// held is what `kymogram spool` says of the one run that waits.
func held(t *testing.T, r *rig.Rig) (state, reason string) {
	t.Helper()
	var report struct {
		Waiting []struct{ State, Error string }
	}
	if err := json.Unmarshal([]byte(r.CLI(t, "spool", "--spool", r.Spool, "--json")), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Waiting) == 0 {
		return "", ""
	}
	return report.Waiting[0].State, report.Waiting[0].Error
}

// mustHave: the run's points are 0, 1, 2, …, each once.
func mustHave(t *testing.T, c *rig.Client, run string, count int) {
	t.Helper()
	seen := map[string]int{}
	for _, v := range c.Points(t, c.Run(t, "default/crash", run).ID, "value", "ML_STEP", nil)["value"] {
		seen[rig.Text(v)]++
	}
	for n := range count {
		if times := seen[rig.Text(float64(n))]; times != 1 {
			t.Fatalf("point %d of %d is there %d times", n, count, times)
		}
	}
	if len(seen) != count {
		t.Errorf("%d points, %d were logged", len(seen), count)
	}
}

// A key is revoked while a training logs: the points wait, the spool says why,
// and a key that a sync was given once serves the rest of the run.
func TestKeyRevokedAndRenewed(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	key := func(name string) (id, text string) {
		var doc struct{ ID, Key string }
		out := r.CLI(t, "key", "create", "--name", name, "--scope", "ingest", "--json", "--server", server.Address, "--key", server.Key(t))
		if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Key == "" {
			t.Fatalf("%v: %s", err, out)
		}
		return doc.ID, doc.Key
	}
	id, first := key("first")
	stop := filepath.Join(r.Dir, "stop")
	loop := r.StartLoopIn(t, []string{"KYMOGRAM_API_KEY=" + first}, server.Address, "revoked", "--pause", "0.002", "--until", stop)
	loop.WaitOpen(t)
	rig.Eventually(t, 20*time.Second, "points arrive", func() bool { return server.Client(t).Metric(t, "kymogram_ingest_points_total") > 100 })
	r.CLI(t, "key", "revoke", id, "--server", server.Address, "--key", server.Key(t))
	var reason string
	rig.Eventually(t, 20*time.Second, "the spool says that the key is refused", func() bool {
		state, text := held(t, r)
		reason = text
		return state == "refused"
	})
	if !strings.Contains(reason, "key") {
		t.Errorf("the reason is %q", reason)
	}
	_, second := key("second")
	r.CLI(t, "sync", "--spool", r.Spool, "--key", second)
	rig.Eventually(t, 20*time.Second, "the agent goes on with the new key", func() bool {
		_, ok := r.Agent()
		state, _ := held(t, r)
		return ok && state != "refused" && state != "nobody delivers"
	})
	end(t, stop)
	loop.Wait(t)
	rig.Eventually(t, 20*time.Second, "the agent delivers all of it", func() bool {
		state, _ := held(t, r)
		return state == ""
	})
	mustHave(t, server.Client(t), "revoked", loop.Returned())
}

// A certificate has expired: the points wait, the spool says why, and with a new
// one the agent delivers them by itself.
func TestCertificateExpired(t *testing.T) {
	r := rig.New(t)
	a := newAuthority(t, r.Dir)
	cert, key := a.issue(t, r.Dir, time.Now().Add(-time.Hour))
	server := r.Serve(t, "--tls-cert", cert, "--tls-key", key)
	admin := server.Key(t)
	stop := filepath.Join(r.Dir, "stop")
	address := "https://" + strings.TrimPrefix(server.Address, "http://")
	loop := r.StartLoopIn(t, []string{"KYMOGRAM_API_KEY=" + admin, "SSL_CERT_FILE=" + a.file}, address, "expired", "--pause", "0.002", "--until", stop)
	loop.WaitOpen(t)
	rig.Eventually(t, 20*time.Second, "the spool says that the certificate has expired", func() bool {
		state, reason := held(t, r)
		return state == "retrying" && strings.Contains(reason, "expired")
	})
	a.issue(t, r.Dir, time.Now().Add(time.Hour))
	server.Kill(t)
	server.Restart(t, "--tls-cert", cert, "--tls-key", key)
	end(t, stop)
	loop.Wait(t)
	rig.Eventually(t, 40*time.Second, "the agent delivers all of it", func() bool {
		state, _ := held(t, r)
		return state == ""
	})
	server.Stop(t)
	mustHave(t, r.ServeData(t, server.Data).Client(t), "expired", loop.Returned())
}

// authority signs certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(dir, "ca.pem")}
	a.key = newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate that ends at a time, and its key.
func (a *authority) issue(t *testing.T, dir string, until time.Time) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	own := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, "CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(own); err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "PRIVATE KEY", der)
	return cert, key
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
