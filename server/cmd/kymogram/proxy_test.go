package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
)

// tunnels is a proxy that takes CONNECT and leads every name to one address.
type tunnels struct {
	to    string
	made  atomic.Int64
	wrong atomic.Int64 // requests for another host, or that are no CONNECT
}

func (p *tunnels) serve(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go p.tunnel(conn)
	}
}

func (p *tunnels) tunnel(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if request.Method != http.MethodConnect || !strings.HasPrefix(request.Host, "kymogram.test:") {
		p.wrong.Add(1)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	p.made.Add(1)
	var both errgroup.Group
	both.Go(func() error { _, err := io.Copy(server, in); server.Close(); return err })
	both.Go(func() error { _, err := io.Copy(conn, server); conn.Close(); return err })
	_ = both.Wait() // one side hung up
}

// TestProxy: the only way to kymogram.test, a name that nobody else knows, is
// the proxy that HTTPS_PROXY names. The proxy's rules are read once a process, so
// this takes a process of its own.
func TestProxy(t *testing.T) {
	k := serveKitchen(t, "--tls", "self", "--host", "kymogram.test")
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	proxy := &tunnels{to: k.address}
	go proxy.serve(lis)
	k.logAway("away")
	key, err := os.ReadFile(filepath.Join(k.env["HOME"], "data", "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(k.address)
	cmd := exec.Command(buildBinary(t), "sync", "--spool", k.spool(), "--server", "https://kymogram.test:"+port, "--timeout", "20s")
	cmd.Env = []string{
		"HOME=" + k.env["HOME"], "KYMOGRAM_API_KEY=" + strings.TrimSpace(string(key)),
		"SSL_CERT_FILE=" + filepath.Join(k.env["HOME"], "data", "tls", "ca.pem"), "HTTPS_PROXY=http://" + lis.Addr().String(),
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "100 points delivered") {
		t.Errorf("through the proxy: %v\n%s", err, out)
	}
	if proxy.made.Load() == 0 || proxy.wrong.Load() > 0 {
		t.Errorf("%d tunnels, %d other requests", proxy.made.Load(), proxy.wrong.Load())
	}
}
