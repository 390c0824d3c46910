package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
)

// influxMeasurement is where the doctor's point is written to.
const influxMeasurement = "kymogram_doctor"

// InfluxQuestion names an InfluxDB, or a Kymogram, as MetricsLogger does.
type InfluxQuestion struct {
	Host     string // a name, HOST:PORT, or http://… or https://…; a name alone means https
	Port     string // where Host has none; empty: 8086
	Database string // a bucket; empty: tplr
	Org      string // empty: tplr
	Token    string // USER:PASSWORD for InfluxDB 1
	// Wait is for one answer; 0: 5 s.
	Wait time.Duration
}

// influx is a check under way.
type influx struct {
	*Diagnosis
	question InfluxQuestion
	base     *url.URL
	client   *http.Client
	kind     influxKind
	version  string
	mark     string // of this check's point
}

// influxKind says which of the protocol's readings a server speaks.
type influxKind int

const (
	influx1 influxKind = iota + 1
	influx2
	influxKymogram
)

// ParseInflux fills in what is not said, and refuses what is no address.
func ParseInflux(q InfluxQuestion) (InfluxQuestion, *url.URL, error) {
	q.Database, q.Org = cmp.Or(q.Database, "tplr"), cmp.Or(q.Org, "tplr")
	q.Wait = cmp.Or(q.Wait, limit)
	text := q.Host
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	base, err := url.Parse(text)
	switch {
	case q.Host == "":
		return q, nil, model.Errorf(model.CodeInvalid, "no host is given").WithHint("name it with --host or INFLUXDB_HOST, such as https://influx.example.org:8086")
	case err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "":
		return q, nil, model.Errorf(model.CodeInvalid, "--host is no address").WithHint("such as influx.example.org, or http://127.0.0.1:8086")
	case base.User != nil:
		return q, nil, model.Errorf(model.CodeInvalid, "--host holds a password").WithHint("set INFLUXDB_TOKEN to USER:PASSWORD instead")
	case strings.ContainsFunc(q.Token, func(r rune) bool { return r < ' ' || r > '~' }):
		return q, nil, model.Errorf(model.CodeInvalid, "the token holds a control character, or one that is not ASCII").WithHint("copy it again, without the line's end")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	base.Host = net.JoinHostPort(base.Hostname(), cmp.Or(base.Port(), q.Port, "8086"))
	return q, base, nil
}

// ExamineInflux walks the way of a point: to the server, in, back, and out again. A step that
// fails ends it, since the others would fail for the same reason.
func ExamineInflux(ctx context.Context, q InfluxQuestion) (*Diagnosis, error) {
	q, base, err := ParseInflux(q)
	if err != nil {
		return nil, err
	}
	mark := make([]byte, 4)
	_, _ = rand.Read(mark) // never fails, see crypto/rand
	i := &influx{Diagnosis: &Diagnosis{OK: true}, question: q, base: base, mark: hex.EncodeToString(mark)}
	i.client = &http.Client{
		Transport:     &http.Transport{ResponseHeaderTimeout: q.Wait, DisableKeepAlives: true}, // straight, as the address says
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	steps := []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"resolve", i.resolve}, {"connect", i.connect}, {"tls", i.secure}, {"server", i.greet}, {"auth", i.signIn}, {"write", i.write}, {"read", i.read},
	}
	for _, step := range steps {
		if !i.take(ctx, step.name, step.do) {
			if step.name == "read" {
				i.take(ctx, "clean", i.clean)
			}
			return i.Diagnosis, nil
		}
	}
	i.take(ctx, "clean", i.clean)
	return i.Diagnosis, nil
}

// take does a step within its time. What a server says may hold what it was told: no secret
// is shown.
func (i *influx) take(ctx context.Context, name string, do func(context.Context) (string, error)) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*i.question.Wait)
	defer cancel()
	detail, err := do(ctx)
	i.add(name, detail, err)
	f := &i.Findings[len(i.Findings)-1]
	f.Detail, f.Hint = i.hide(f.Detail), i.hide(f.Hint)
	return err == nil
}

func (i *influx) hide(text string) string {
	_, password, _ := strings.Cut(i.question.Token, ":")
	for _, secret := range []string{i.question.Token, password} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// wrong is a finding with what to do.
func wrong(hint, format string, args ...any) error {
	return model.Errorf(model.CodeUnavailable, format, args...).WithHint("%s", hint)
}

func (i *influx) resolve(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, i.question.Wait)
	defer cancel()
	name := i.base.Hostname()
	found, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		return "", wrong("check the name, and the DNS of this machine: getent hosts "+name, "the name %s has no address: %v", name, err)
	}
	return name + " is " + strings.Join(found, ", "), nil
}

func (i *influx) connect(ctx context.Context) (string, error) {
	dialer, began := net.Dialer{Timeout: i.question.Wait}, time.Now()
	c, err := dialer.DialContext(ctx, "tcp", i.base.Host)
	if err != nil {
		hint := "a firewall may be in the way; is the port right (--port, INFLUXDB_PORT; InfluxDB has 8086, Kymogram 7070)?"
		if errors.Is(err, syscall.ECONNREFUSED) {
			hint = "start the server, or name its port: --port, INFLUXDB_PORT; InfluxDB has 8086, Kymogram 7070"
		}
		return "", wrong(hint, "%s takes no connection: %v", i.base.Host, err)
	}
	defer c.Close()
	return fmt.Sprintf("%s took the connection in %s", c.RemoteAddr(), duration.Text(time.Since(began).Round(time.Microsecond))), nil
}

// secure looks at the certificate before anything is sent.
func (i *influx) secure(ctx context.Context) (string, error) {
	if i.base.Scheme == "http" {
		return "not used: the address is http://. Whoever is on the way reads the token", nil
	}
	ctx, cancel := context.WithTimeout(ctx, i.question.Wait)
	defer cancel()
	c, err := new(tls.Dialer).DialContext(ctx, "tcp", i.base.Host)
	if err != nil {
		return "", tlsTrouble(err, i.base)
	}
	defer c.Close()
	state := c.(*tls.Conn).ConnectionState()
	return fmt.Sprintf("%s, certificate of %s, valid until %s", tls.VersionName(state.Version), state.PeerCertificates[0].Subject.CommonName,
		state.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly)), nil
}

func tlsTrouble(err error, base *url.URL) error {
	var (
		stranger x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		plain    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &plain):
		return wrong("the port speaks plain text: give --host http://"+base.Host, "no TLS at %s: %v", base.Host, err)
	case errors.As(err, &stranger):
		return wrong("set SSL_CERT_FILE to the PEM file of its authority (DATA/tls/ca.pem of `kymogram serve --tls self`), for this command and for your programs", "the certificate is of an authority that this machine does not know: %v", err)
	case errors.As(err, &name):
		return wrong("use one of the names that the certificate has", "the certificate is for another name: %v", err)
	case errors.As(err, &invalid):
		return wrong("renew the certificate on the server, and check this machine's clock", "the certificate is not valid: %v", err)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return wrong("is it a server with TLS? Try --host http://"+base.Host, "%s does not answer the TLS handshake", base.Host)
	}
	return wrong("try --host http://"+base.Host+" if the server has no TLS", "no TLS connection: %v", err)
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}
