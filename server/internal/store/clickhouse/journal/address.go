package journal

import (
	"cmp"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kymogram/kymogram/internal/model"
)

// place is what an address says.
type place struct {
	servers  []string // HOST:PORT
	secure   bool
	user     *url.Userinfo
	bytes    int64
	replicas int // 0: three, or one where there is one server
}

// defaultBytes is how much a log holds where the address does not say it.
const defaultBytes = 4 << 30

// parse reads an address. It may have a password, so no error repeats it.
func parse(given string) (*place, error) {
	first, others, several := strings.Cut(given, ",")
	hosts, rest := others, ""
	if at := strings.IndexAny(others, "/?"); at >= 0 {
		hosts, rest = others[:at], others[at:]
	}
	u, err := url.Parse(first + rest)
	if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" || strings.Trim(u.Path, "/") != "" || several && hosts == "" {
		return nil, model.Errorf(model.CodeInvalid, "what is given is no address of NATS").
			WithHint("Write nats://HOST:4222, several hosts with commas between, and tls:// for TLS. User and password come from NATS_USER and NATS_PASSWORD.")
	}
	p := &place{secure: u.Scheme == "tls", user: u.User, bytes: defaultBytes}
	list := []string{u.Host}
	if several {
		list = append(list, strings.Split(hosts, ",")...)
	}
	for _, host := range list {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "4222")
		}
		p.servers = append(p.servers, host)
	}
	for key, values := range u.Query() {
		n, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case key == "bytes" && err == nil && n >= 1<<20:
			p.bytes = n
		case key == "replicas" && err == nil && n >= 1 && n <= 5:
			p.replicas = int(n)
		default:
			return nil, model.Errorf(model.CodeInvalid, "the address of NATS has %s=%s", key, values[0]).
				WithHint("It may have bytes=N, how much the log holds, at least 1048576, and replicas=N, from 1 to 5.")
		}
	}
	return p, nil
}

// Check refuses an address that is not one of NATS.
func Check(given string) error {
	_, err := parse(given)
	return err
}

// Named is an address as it may be shown: without user, password and settings.
func Named(given string) string {
	p, err := parse(given)
	if err != nil {
		return "nats://…"
	}
	return "nats://" + strings.Join(p.servers, ",")
}

// connect takes what is not in the address from the variables that the program nats reads.
func (p *place) connect(node string) (*nats.Conn, error) {
	servers := make([]string, len(p.servers))
	for i, at := range p.servers {
		servers[i] = "nats://" + at
		if p.secure {
			servers[i] = "tls://" + at
		}
	}
	o := []nats.Option{
		nats.Name("kymogram " + node), nats.Timeout(5 * time.Second), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectBufSize(-1), // a block is in the log, or its write fails
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
	}
	user, password := os.Getenv("NATS_USER"), os.Getenv("NATS_PASSWORD")
	if p.user != nil {
		given, _ := p.user.Password()
		user, password = p.user.Username(), cmp.Or(given, password)
	}
	if user != "" {
		o = append(o, nats.UserInfo(user, password))
	}
	if token := os.Getenv("NATS_TOKEN"); token != "" {
		o = append(o, nats.Token(token))
	}
	if file := os.Getenv("NATS_CREDS"); file != "" {
		o = append(o, nats.UserCredentials(file))
	}
	if file := os.Getenv("NATS_CA"); file != "" {
		o = append(o, nats.RootCAs(file))
	}
	if cert, key := os.Getenv("NATS_CERT"), os.Getenv("NATS_KEY"); cert != "" {
		o = append(o, nats.ClientCert(cert, key))
	}
	return nats.Connect(strings.Join(servers, ","), o...)
}
