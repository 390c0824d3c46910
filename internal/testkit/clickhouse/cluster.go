package clickhouse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/port"
)

// ClusterName is that of the test's own cluster in the configuration of its servers.
const ClusterName = "kymogram"

// Size of the test's own cluster.
const shards, replicas = 2, 2

// Cluster is shards of replicas of ClickHouse, and the ZooKeeper that they share.
type Cluster struct {
	Shards [][]*Server
	Keeper *Keeper
}

// StartCluster makes an empty cluster of two shards with two replicas each.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Keeper: startKeeper(t)}
	free := port.Free(t, 3*shards*replicas)
	var text strings.Builder
	for s := range shards {
		text.WriteString("<shard><internal_replication>true</internal_replication>")
		for r := range replicas {
			fmt.Fprintf(&text, "<replica><host>127.0.0.1</host><port>%d</port></replica>", free[3*(s*replicas+r)])
		}
		text.WriteString("</shard>")
	}
	for s := range shards {
		c.Shards = append(c.Shards, nil)
		for r := range replicas {
			own := free[3*(s*replicas+r):]
			c.Shards[s] = append(c.Shards[s], prepare(t, own[:2], fmt.Sprintf(member, own[2], c.Keeper.port, s+1, r+1, text.String())))
		}
	}
	for _, s := range c.All() {
		s.start(t, s.program())
	}
	for _, s := range c.All() {
		s.ready(t)
	}
	return c
}

// All are the servers of all shards.
func (c *Cluster) All() (out []*Server) {
	for _, s := range c.Shards {
		out = append(out, s...)
	}
	return out
}

// Addrs are the addresses of all servers.
func (c *Cluster) Addrs() (out []string) {
	for _, s := range c.All() {
		out = append(out, s.Addrs...)
	}
	return out
}

// Database is a new one on every server.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := c.Shards[0][0].Database(t)
	for _, s := range c.All()[1:] {
		s.Do(t, "CREATE DATABASE "+name)
	}
	return name
}

// Keeper is a ZooKeeper of one server, straight from Debian's jar.
type Keeper struct {
	process

	port   int
	folder string
	said   bytes.Buffer
}

const keeperJar = "/usr/share/java/zookeeper.jar"

func startKeeper(t testing.TB) *Keeper {
	t.Helper()
	if _, err := os.Stat(keeperJar); err != nil {
		t.Skip("ZooKeeper is not installed: apt-get install --no-install-recommends zookeeper")
	}
	k := &Keeper{port: port.Free(t, 1)[0], folder: t.TempDir()}
	settings := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nforceSync=no\nmaxClientCnxns=0\n", k.folder, k.port)
	if err := os.WriteFile(filepath.Join(k.folder, "zoo.cfg"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Kill()
		if t.Failed() {
			t.Logf("ZooKeeper said:\n%s", k.said.String())
		}
	})
	k.Serve(t)
	return k
}

// Serve starts it, also again after [Keeper.Kill], and waits until it answers.
func (k *Keeper) Serve(t testing.TB) {
	t.Helper()
	program := func() *exec.Cmd {
		k.forgetEmptyLogs(t)
		cmd := exec.CommandContext(context.Background(), "java", "-Xmx128m", "-cp", k.folder+":"+keeperJar,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(k.folder, "zoo.cfg"))
		cmd.Stdout, cmd.Stderr = &k.said, &k.said
		return cmd
	}
	k.start(t, program())
	k.wait(t, program, func() bool { return k.answers(t.Context()) })
}

// forgetEmptyLogs removes logs that were killed before they began: with one ZooKeeper does not start.
func (k *Keeper) forgetEmptyLogs(t testing.TB) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(k.folder, "version-2", "log.*")) // the pattern is valid
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil && info.Size() == 0 {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (k *Keeper) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(k.port)))
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	_, _ = c.Write([]byte("srvr")) // the answer tells
	answer, err := io.ReadAll(c)
	return err == nil && bytes.HasPrefix(answer, []byte("Zookeeper version"))
}
