package server

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/config"
)

// Lifetimes of the private authority and of the certificates that it signs; a
// certificate is renewed at the first start in its last third.
const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 397 * 24 * time.Hour // the most that browsers accept
)

// The files of `--tls self` in DIR/tls.
const (
	CAFile     = "ca.pem"
	caKeyFile  = "ca.key"
	crtFile    = "server.pem"
	crtKeyFile = "server.key"
)

// OpenTLS is what the settings ask for; dir is for a private authority. It is nil for
// plain text.
func OpenTLS(c config.Config, dir string, l *Listeners) (*tls.Config, error) {
	if c.TLS.Cert != "" {
		return LoadTLS(c.TLS.Cert, c.TLS.Key)
	}
	if c.TLS.Mode == config.TLSSelf {
		return SelfTLS(dir, CertificateNames(KnownHosts(c.Hosts), l), time.Now())
	}
	return nil, nil //nolint:nilnil // plain text is a valid answer
}

// LoadTLS reads a certificate and its key.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "cannot use the TLS certificate %s with the key %s: %v", certFile, keyFile, err).
			WithHint("both are PEM files; the certificate comes first and its chain follows")
	}
	return tlsConfig(cert), nil
}

func tlsConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
}

// SelfTLS makes, once, a private certificate authority in dir and a certificate
// for hosts signed by it; clients trust dir/ca.pem.
func SelfTLS(dir string, hosts []string, now time.Time) (*tls.Config, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for TLS: %w", err)
	}
	ca, err := loadPair(dir, CAFile, caKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = makeAuthority(dir, now)
	}
	if err != nil {
		return nil, err
	}
	own, err := loadPair(dir, crtFile, crtKeyFile)
	if err != nil || !own.serves(hosts, now) || own.cert.CheckSignatureFrom(ca.cert) != nil {
		if own, err = makeCertificate(dir, ca, hosts, now); err != nil {
			return nil, err
		}
	}
	return tlsConfig(tls.Certificate{
		Certificate: [][]byte{own.cert.Raw, ca.cert.Raw}, PrivateKey: own.key, Leaf: own.cert,
	}), nil
}

// pair is a certificate with its private key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (p *pair) serves(hosts []string, now time.Time) bool {
	left := p.cert.NotAfter.Sub(now)
	return left > certificateLife/3 && !slices.ContainsFunc(hosts, func(h string) bool { return p.cert.VerifyHostname(h) != nil })
}

func loadPair(dir, certName, keyName string) (*pair, error) {
	loaded, err := tls.LoadX509KeyPair(filepath.Join(dir, certName), filepath.Join(dir, keyName))
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", certName, err)
	}
	key, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("load %s: the key cannot sign", keyName)
	}
	return &pair{loaded.Leaf, key}, nil
}

func makeAuthority(dir string, now time.Time) (*pair, error) {
	host, _ := os.Hostname()
	return makePair(dir, CAFile, caKeyFile, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Kymogram on " + host},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil)
}

func makeCertificate(dir string, ca *pair, hosts []string, now time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kymogram"},
		NotBefore:   now.Add(-time.Hour),
		NotAfter:    now.Add(certificateLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return makePair(dir, crtFile, crtKeyFile, template, ca)
}

// makePair makes a key and a certificate signed by parent (nil: by itself), and
// writes both, the key first so that a certificate always has one.
func makePair(dir, certName, keyName string, template *x509.Certificate, parent *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial)
	template.SerialNumber = new(big.Int).SetBytes(serial)
	if parent == nil {
		parent = &pair{template, key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent.cert, key.Public(), parent.key)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	if err := writePEM(filepath.Join(dir, keyName), "PRIVATE KEY", der, 0o600); err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, certName), "CERTIFICATE", raw, 0o644); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	return &pair{cert, key}, nil
}

func writePEM(path, kind string, der []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
