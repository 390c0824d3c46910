package cluster

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/kymogram/kymogram/internal/model"
)

// place is what an address says.
type place struct {
	options clickhouse.Options
	name    string // of the cluster, empty for one server
	copies  int    // replicas that have rows before an insert is answered; 0: two where it goes
	current bool   // the servers are not from before currentSince
}

// parse reads an address. It may have a password, so no error repeats it.
func parse(given string) (*place, error) {
	o, err := clickhouse.ParseDSN(given)
	if err != nil || o.Protocol != clickhouse.Native || !strings.HasPrefix(given, "clickhouse://") || len(o.Addr) == 0 || o.Auth.Database == "" {
		return nil, errAddress()
	}
	for _, addr := range o.Addr {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return nil, errAddress()
		}
	}
	p := &place{options: *o}
	if name, ok := o.Settings["cluster"]; ok {
		if p.name = fmt.Sprint(name); p.name == "" {
			return nil, model.Errorf(model.CodeInvalid, "the address has cluster= and no name").WithHint("Write ?cluster=NAME, or leave it out for one server.")
		}
	}
	if n, ok := o.Settings["copies"]; ok {
		p.copies, err = strconv.Atoi(fmt.Sprint(n))
		if err != nil || p.copies < 1 {
			return nil, model.Errorf(model.CodeInvalid, "copies=%v is no number of replicas, 1 or more", n)
		}
	}
	if p.options.Settings == nil {
		p.options.Settings = clickhouse.Settings{}
	}
	delete(p.options.Settings, "cluster")
	delete(p.options.Settings, "copies")
	if p.name == "" && (len(o.Addr) > 1 || p.copies > 1) {
		return nil, model.Errorf(model.CodeInvalid, "several servers of ClickHouse are used as a cluster, and the address names none").
			WithHint("Add ?cluster=NAME, or name one server.")
	}
	if p.name != "" {
		p.options.ReadTimeout = deadAfter
	}
	return p, nil
}

func errAddress() error {
	return model.Errorf(model.CodeInvalid, "what is given is no address of a ClickHouse database").
		WithHint("Write clickhouse://USER@HOST:9000/DATABASE, with the password in CLICKHOUSE_PASSWORD.")
}

// Check refuses an address that is not one of a ClickHouse database.
func Check(given string) error {
	_, err := parse(given)
	return err
}

// Named is an address as it may be shown: without user, password and settings.
func Named(given string) string {
	p, err := parse(given)
	if err != nil {
		return "clickhouse://…"
	}
	return "clickhouse://" + strings.Join(p.options.Addr, ",") + "/" + p.options.Auth.Database
}

// local is the table with the rows of a server.
func (p *place) local() string {
	if p.name == "" {
		return table
	}
	return localTable
}

// remote is that of a server as another one reads it.
func (p *place) remote(r *replica) string {
	function, a := "remote", p.options.Auth
	if p.options.TLS != nil {
		function = "remoteSecure"
	}
	return fmt.Sprintf("%s(%s, %s, %s, %s, %s)", function, text(r.address), text(a.Database), text(localTable), text(a.Username), text(a.Password))
}

func address(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func unreachable(err error) error {
	var said *clickhouse.Exception
	if errors.As(err, &said) {
		return model.Errorf(model.CodeUnavailable, "ClickHouse refused the start: %s", said.Message)
	}
	return model.Errorf(model.CodeUnavailable, "ClickHouse cannot be reached: %v", err)
}
