// Package config reads what a user may set on a server: defaults, then a YAML
// file, then KYMOGRAM_* variables, then flags; later ones win. It is strict: an
// unknown key is an error that names the one probably meant.
//
// A setting is a leaf of [Config]: its name, help and secrecy are in the struct's
// tags, and its flag and variable follow from them (field.go). Defaults and checks
// are in this file, the sources in load.go.
package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
)

// Config is a server's configuration. Every leaf is a [Field].
type Config struct {
	Data      string    `yaml:"data" usage:"folder for everything that the server keeps"`
	Blob      string    `yaml:"blob" usage:"bucket for files instead of the data folder, s3://BUCKET/PREFIX?endpoint=URL&region=NAME"`
	Catalog   string    `yaml:"catalog" secret:"yes" usage:"PostgreSQL database for runs, keys and views instead of the data folder, postgres://USER@HOST/DATABASE"`
	Store     string    `yaml:"store" secret:"yes" usage:"ClickHouse database for points instead of the data folder, which several servers may share, clickhouse://USER@HOST:9000/DATABASE; needs catalog"`
	PointsLog string    `yaml:"points_log" flag:"log" secret:"yes" usage:"NATS JetStream that takes points while ClickHouse is away, nats://HOST:4222 or tls://; needs store"`
	HTTP      string    `yaml:"http" usage:"address for HTTP and gRPC, HOST:PORT; port 0 picks a free one"`
	GRPC      string    `yaml:"grpc" usage:"one more address, for gRPC alone"`
	NoAuth    bool      `yaml:"no_auth" usage:"accept any key and none; whoever reaches the address may do everything"`
	Insecure  bool      `yaml:"insecure" usage:"allow an address that is not loopback without TLS, or with no_auth"`
	Hosts     []string  `yaml:"hosts" flag:"host" usage:"names under which browsers reach the server, besides localhost, its host name and IP addresses"`
	AdminKey  string    `yaml:"admin_key" flag:"-" secret:"yes" usage:"the admin key to use on first start instead of a random one"`
	TLS       TLS       `yaml:"tls"`
	Log       Log       `yaml:"log"`
	Limits    Limits    `yaml:"limits"`
	Memory    Memory    `yaml:"memory"`
	Influx    Influx    `yaml:"influx"`
	Promwrite Promwrite `yaml:"promwrite"`
	OTLP      OTLP      `yaml:"otlp"`
	Chain     Chain     `yaml:"chain"`
	Retention Retention `yaml:"retention"`
	State     State     `yaml:"state"`
	// Trash is how long a deleted run can be restored.
	Trash time.Duration `yaml:"trash" usage:"how long a deleted run can be restored, such as 7d"`
}

// TLS configures both addresses.
type TLS struct {
	Mode string `yaml:"mode" flag:"tls" usage:"self: TLS by a private authority that is made in DIR/tls"`
	Cert string `yaml:"cert" usage:"PEM file of the certificate and its chain"`
	Key  string `yaml:"key" usage:"PEM file of the certificate's key"`
}

// Log configures the log on stderr.
type Log struct {
	Level string `yaml:"level" usage:"debug, info, warn or error"`
}

// Influx configures what InfluxDB's clients write; a rule is BUCKET=RULE, and the
// bucket * stands for all without one.
type Influx struct {
	Workspace string   `yaml:"workspace" usage:"workspace of InfluxDB requests that name no organisation; default when not set"`
	Runs      []string `yaml:"runs" usage:"run of a bucket's points, BUCKET=NAME|NAME…, with tags in braces; for all others {run}|{role}-{uid}|default"`
	Axes      []string `yaml:"axes" usage:"tags of a bucket that are axes, BUCKET=TAG|TAG…; for all others step|global_step|window|block|batch|epoch"`

	Attributes []string `yaml:"attributes" usage:"tags of a bucket that describe the process, BUCKET=TAG|PREFIX*|…: attributes, not labels; without it Templar's for points with runtime_id"`
}

// Promwrite configures what Prometheus writes.
type Promwrite struct {
	Workspace string `yaml:"workspace" usage:"workspace of remote writes whose URL names none; default when not set"`
	Project   string `yaml:"project" usage:"project of remote writes whose URL names none; prometheus when not set"`
}

// OTLP configures what OpenTelemetry's clients write.
type OTLP struct {
	Workspace string   `yaml:"workspace" usage:"workspace of OpenTelemetry's requests that name none; default when not set"`
	Project   string   `yaml:"project" usage:"project of OpenTelemetry's requests that name none; opentelemetry when not set"`
	Runs      []string `yaml:"runs" usage:"run of a project's resources, PROJECT=NAME|NAME…, with attributes in braces; for all others {kymogram.run}|{service.name}/{service.instance.id}|{service.name}|default"`
}

// Chain configures where /sd/bittensor finds endpoints.
type Chain struct {
	Endpoints    []string `yaml:"endpoints" flag:"chain" usage:"WebSocket addresses of nodes of the Bittensor chain, ws:// or wss://, for /sd/bittensor"`
	AllowPrivate bool     `yaml:"allow_private" usage:"list private and loopback addresses in /sd/bittensor too"`
}

// State configures signed records.
type State struct {
	Log bool `yaml:"log" usage:"keep a Merkle log over the signed records of each project, so that nobody can rewrite them unseen"`
}

// Limits bound what one client may cost.
type Limits struct {
	BodyMiB      int64 `yaml:"body_mib" usage:"largest request body over HTTP, MiB"`
	BlobMiB      int64 `yaml:"blob_mib" usage:"largest file, MiB"`
	SeriesPerRun int64 `yaml:"series_per_run" usage:"most series of one run"`

	Connections           int64 `yaml:"connections" usage:"most connections; 0: 10000, or three quarters of the file descriptors when that is less"`
	ConnectionsPerAddress int64 `yaml:"connections_per_address" usage:"most connections of one address but loopback; 0: a quarter of all. Raise it for a proxy on another machine"`
}

// Retention deletes runs that nobody writes to and that have no tag "keep".
type Retention struct {
	Age   time.Duration `yaml:"age" usage:"delete a run for good when its last activity is older than this, such as 90d; 0s keeps it"`
	Bytes int64         `yaml:"bytes" usage:"delete the oldest runs for good while all points take more bytes; 0 keeps them"`
}

// TLSSelf is the TLS mode with a private authority.
const TLSSelf = "self"

// Default is the configuration of a server that nobody configured.
func Default(env func(string) string) Config {
	return Config{
		Data:   defaultData(env),
		HTTP:   "127.0.0.1:7070",
		Log:    Log{Level: "info"},
		Limits: Limits{BodyMiB: 16, BlobMiB: 4096, SeriesPerRun: 1_000_000},
		Trash:  7 * 24 * time.Hour,
	}
}

func defaultData(env func(string) string) string {
	base := env("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		base = filepath.Join(env("HOME"), ".local", "share")
	}
	return filepath.Join(base, "kymogram")
}

// Validate reports the first setting that cannot work.
func (c *Config) Validate() error {
	checks := []func() error{c.checkData, c.checkBlob, c.checkCatalog, c.checkStore, c.checkPointsLog, c.checkTLS, c.checkAddresses, c.checkLevel, c.checkLimits, c.checkKey, c.checkChain, c.checkPlaces}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func invalid(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

func (c *Config) checkData() error {
	if c.Data == "" {
		return invalid("data: no folder is given").WithHint("name one with --data DIR")
	}
	return nil
}

// checkPlaces refuses a workspace or project that every request without one would fail with.
func (c *Config) checkPlaces() error {
	for _, place := range []struct{ section, workspace, project string }{
		{"influx", c.Influx.Workspace, ""},
		{"promwrite", c.Promwrite.Workspace, c.Promwrite.Project},
		{"otlp", c.OTLP.Workspace, c.OTLP.Project},
	} {
		if err := model.CheckPlace(cmp.Or(place.workspace, "default"), cmp.Or(place.project, "default")); err != nil {
			e := *model.Shown(err)
			e.Message = place.section + ": " + e.Message
			return &e
		}
	}
	return nil
}

func (c *Config) checkBlob() error {
	if c.Blob == "" {
		return nil
	}
	if _, err := s3.Parse(c.Blob); err != nil {
		return fmt.Errorf("blob: %w", err)
	}
	return nil
}

func (c *Config) checkCatalog() error {
	if c.Catalog == "" {
		return nil
	}
	if err := psql.Check(c.Catalog); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	return nil
}

func (c *Config) checkStore() error {
	if c.Store == "" {
		return nil
	}
	if err := cluster.Check(c.Store); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	switch {
	case c.Catalog == "":
		return invalid("store: points in ClickHouse need runs in PostgreSQL").WithHint("give --catalog postgres://USER@HOST/DATABASE too")
	case c.Retention.Bytes != 0:
		return invalid("retention.bytes: ClickHouse does not say how many bytes a run takes").WithHint("use retention.age with --store")
	}
	return nil
}

func (c *Config) checkPointsLog() error {
	if c.PointsLog == "" {
		return nil
	}
	if err := journal.Check(c.PointsLog); err != nil {
		return fmt.Errorf("points_log: %w", err)
	}
	if c.Store == "" {
		return invalid("points_log: a log takes points for ClickHouse, and there is no store").WithHint("give --store clickhouse://USER@HOST:9000/DATABASE too, or leave out --log")
	}
	return nil
}

func (c *Config) checkTLS() error {
	if c.TLS.Mode != "" && c.TLS.Mode != TLSSelf {
		return invalid("tls.mode: %q is not known", c.TLS.Mode).WithHint("use self, or give tls.cert and tls.key")
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		return invalid("tls: a certificate and its key belong together").WithHint("give both --tls-cert and --tls-key")
	}
	if c.TLS.Mode != "" && c.TLS.Cert != "" {
		return invalid("tls: self makes its own certificate, so tls.cert cannot be given too")
	}
	for name, file := range map[string]string{"tls.cert": c.TLS.Cert, "tls.key": c.TLS.Key} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return invalid("%s: %v", name, err)
		}
	}
	return nil
}

// Secure reports whether the addresses speak TLS.
func (c *Config) Secure() bool { return c.TLS.Mode != "" || c.TLS.Cert != "" }

func (c *Config) checkAddresses() error {
	if err := c.checkAddress("http", c.HTTP); err != nil {
		return err
	}
	if c.GRPC == "" {
		return nil
	}
	return c.checkAddress("grpc", c.GRPC)
}

func (c *Config) checkAddress(name, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return invalid("%s: %q is not of the form HOST:PORT", name, address).WithHint("such as 127.0.0.1:7070")
	}
	if c.Insecure || loopback(host) {
		return nil
	}
	if c.NoAuth {
		return invalid("no_auth: %s: %s can be reached from other machines, and without keys each of them may read and delete everything", name, address).
			WithHint("leave out --no-auth; where everybody who reaches the address may do everything, add --insecure")
	}
	if !c.Secure() {
		return invalid("%s: %s can be reached from other machines, and without TLS keys and data pass in the clear", name, address).
			WithHint("use --tls self or --tls-cert and --tls-key; behind a proxy that does TLS, or in a private network, add --insecure")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Config) checkChain() error {
	for _, e := range c.Chain.Endpoints {
		if u, err := url.Parse(e); err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Host == "" {
			return invalid("chain.endpoints: %q is not the WebSocket address of a node", e).WithHint("write it as wss://HOST[:PORT]")
		}
	}
	return nil
}

func (c *Config) checkLevel() error {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, c.Log.Level) {
		return invalid("log.level: %q is not known", c.Log.Level).WithHint("use debug, info, warn or error")
	}
	return nil
}

// The largest limits: a body is held in memory, once for each request.
const (
	maxBodyMiB = 256
	maxBlobMiB = 1 << 20
	maxSeries  = 100_000_000

	maxConnections = 10_000_000
	maxTrash       = 10 * 365 * 24 * time.Hour
	maxMemoryMiB   = 1 << 24
	// Shorter or smaller ones are slips of the pen that would delete nearly all.
	minRetention      = time.Hour
	minRetentionBytes = 1 << 20
)

func (c *Config) checkLimits() error {
	for _, l := range []struct {
		name        string
		value, most int64
	}{
		{"limits.body_mib", c.Limits.BodyMiB, maxBodyMiB},
		{"limits.blob_mib", c.Limits.BlobMiB, maxBlobMiB},
		{"limits.series_per_run", c.Limits.SeriesPerRun, maxSeries},
	} {
		if l.value < 1 || l.value > l.most {
			return invalid("%s is %d, it must be from 1 to %d", l.name, l.value, l.most)
		}
	}
	if min(c.Limits.Connections, c.Limits.ConnectionsPerAddress) < 0 || max(c.Limits.Connections, c.Limits.ConnectionsPerAddress) > maxConnections {
		return invalid("limits.connections is %d and limits.connections_per_address %d, they must be from 0 to %d",
			c.Limits.Connections, c.Limits.ConnectionsPerAddress, maxConnections)
	}
	if m := c.Memory.LimitMiB; m != 0 && (m < MinMemory>>20 || m > maxMemoryMiB) {
		return invalid("memory.limit_mib is %d, it must be 0 or from %d to %d", m, MinMemory>>20, maxMemoryMiB)
	}
	if c.Trash < 0 || c.Trash > maxTrash {
		return invalid("trash is %s, it must be from 0s to %s", duration.Text(c.Trash), duration.Text(maxTrash))
	}
	if c.Retention.Age != 0 && c.Retention.Age < minRetention {
		return invalid("retention.age is %s, it must be 0s or at least %s", duration.Text(c.Retention.Age), duration.Text(minRetention))
	}
	if c.Retention.Bytes != 0 && c.Retention.Bytes < minRetentionBytes {
		return invalid("retention.bytes is %d, it must be 0 or at least %d", c.Retention.Bytes, minRetentionBytes)
	}
	return nil
}

func (c *Config) checkKey() error {
	const digits = "0123456789abcdef"
	if c.AdminKey == "" || len(c.AdminKey) == 40 && strings.Trim(c.AdminKey, digits) == "" {
		return nil
	}
	return invalid("admin_key is not a key").WithHint("a key is 40 lower-case hexadecimal characters: openssl rand -hex 20")
}
