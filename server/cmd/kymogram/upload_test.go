package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/testkit/versitygw"
)

// killable is a server that is a process of its own.
type killable struct {
	t       *testing.T
	data    string
	address string
	keys    bool // callers need keys
	files   int  // most file descriptors, 0: those of the test
	more    []string
	cmd     *exec.Cmd
}

func (s *killable) start() {
	s.t.Helper()
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	args := append([]string{"kymogram", "serve", "--data", s.data, "--http", s.address}, s.more...)
	if !s.keys {
		args = append(args, "--no-auth")
	}
	if s.files > 0 {
		args = append([]string{"sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(s.files)}, args...)
	}
	s.cmd = exec.CommandContext(s.t.Context(), args[0], args[1:]...)
	s.cmd.Env = []string{"HOME=" + s.t.TempDir(), "PATH=" + os.Getenv("PATH"), "AWS_ACCESS_KEY_ID=" + os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY=" + os.Getenv("AWS_SECRET_ACCESS_KEY")}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	match := regexp.MustCompile(`^ready http=(\S+) `).FindStringSubmatch(line)
	if err != nil || match == nil {
		s.t.Fatalf("the server said %q, %v", line, err)
	}
	s.address = match[1]
}

func (s *killable) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// cutter is a way to a server that is cut within uploads: after so many bytes of
// each, in turn. It counts what clients sent of them.
type cutter struct {
	target string
	cuts   chan int64
	before func() // a cut
	sent   atomic.Int64
	tries  atomic.Int64
	calls  atomic.Int64 // connections
}

func (c *cutter) serve(t *testing.T) (address string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			go c.pass(client)
		}
	}()
	return lis.Addr().String()
}

func (c *cutter) pass(client net.Conn) {
	c.calls.Add(1)
	defer client.Close()
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(client, server); client.Close() }()
	head := make([]byte, 64<<10)
	n, err := client.Read(head)
	if _, werr := server.Write(head[:n]); err != nil || werr != nil {
		return
	}
	if !bytes.HasPrefix(head[:n], []byte("PATCH ")) {
		_, _ = io.Copy(server, client)
		return
	}
	c.tries.Add(1)
	limit := int64(1) << 40
	select {
	case limit = <-c.cuts:
	default:
	}
	passed, _ := io.CopyN(server, client, limit)
	c.sent.Add(passed)
	if passed == limit && c.before != nil {
		c.before()
	}
}

// video puts a finished one of random bytes into the spool of a program that is over.
func (k *kitchen) video(size int) (sum string) {
	k.t.Helper()
	k.logAway("away")
	folder, err := spool.OpenFolder(k.spool())
	if err != nil {
		k.t.Fatal(err)
	}
	ids, err := folder.Writers()
	if err != nil || len(ids) != 1 {
		k.t.Fatalf("writers %v, %v", ids, err)
	}
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	hash := sha256.Sum256(data)
	sum = hex.EncodeToString(hash[:])
	f, err := spool.NewRendering(folder.WriterPath(ids[0]), 0, model.Rendering{
		ID: "w-0", Env: "e", Frames: 3, FPS: 30, ContentType: "video/mp4", SHA256: sum, SizeBytes: int64(size), Complete: true,
	})
	if err == nil {
		f.State = spool.RenderingDone
		err = os.WriteFile(f.Video(), data, 0o600)
	}
	if err == nil {
		err = f.Save()
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return sum
}

// stored compares a blob with its name.
func (k *kitchen) stored(address, sum string, size int64) {
	k.t.Helper()
	answer, err := http.Get("http://" + address + "/api/v1/blobs/" + sum)
	if err != nil {
		k.t.Fatal(err)
	}
	defer answer.Body.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, answer.Body)
	if err != nil || n != size || hex.EncodeToString(hash.Sum(nil)) != sum {
		k.t.Errorf("%s: %d of %d bytes, %v", answer.Status, n, size, err)
	}
}

const megabyte = 1 << 20

// An upload that is cut, or whose server is killed, goes on where it stopped: of
// a video of 24 MB that is cut seven times hardly more than 24 MB are sent.
func TestAnUploadGoesOnWhereItStopped(t *testing.T) {
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	const size = 24 * megabyte
	sum := k.video(size)
	s := &killable{t: t, data: t.TempDir()}
	s.start()
	t.Cleanup(func() { s.kill() })
	c := &cutter{target: s.address, cuts: make(chan int64, 7)}
	var once sync.Mutex
	cuts := 0
	c.before = func() {
		once.Lock()
		defer once.Unlock()
		if cuts++; cuts%3 == 0 { // after the third and the sixth, when everything arrived
			k.until("the server has written what it got", func() bool {
				return s.arrived(sum) >= c.sent.Load()
			})
			s.kill()
			if files, err := filepath.Glob(filepath.Join(s.data, "blobs", "*", "*")); err != nil || len(files) != 1 || !strings.Contains(files[0], "partial") {
				t.Errorf("a server that was killed holds %v", files)
			}
			s.start()
		}
	}
	for range cap(c.cuts) {
		c.cuts <- 3 * megabyte
	}
	k.ok("sync", "--server", "http://"+c.serve(t), "--timeout", "120s")
	k.stored(s.address, sum, size)
	if tries := c.tries.Load(); tries != 8 {
		t.Errorf("%d uploads, want 8", tries)
	}
	again := c.sent.Load() - size
	t.Logf("%d bytes were sent again, of %d", again, size)
	if again > size/10 {
		t.Errorf("%d bytes were sent again", again)
	}
	if left, err := filepath.Glob(filepath.Join(s.data, "blobs", "partial", "*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// The S3 of a server is killed in the middle of an upload, again and again, and each time it comes
// back when somebody asked for it. The upload goes on, and what was stored is not sent again.
func TestAnUploadWhoseBucketDies(t *testing.T) {
	needCluster(t)
	g := versitygw.Start(t)
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	const size, kills = 24 * megabyte, 4
	sum := k.video(size)
	s := &killable{t: t, data: t.TempDir(), more: []string{"--blob", g.Location("uploads")}}
	s.start()
	t.Cleanup(func() { s.kill() })
	c := &cutter{target: s.address, cuts: make(chan int64, 2*kills)}
	for range kills { // one is stored, the next finds no S3
		c.cuts <- megabyte
		c.cuts <- megabyte / 2
	}
	var once sync.Mutex
	cuts := 0
	c.before = func() {
		once.Lock()
		defer once.Unlock()
		if cuts++; cuts%2 == 0 {
			g.Kill()
			before := c.calls.Load()
			go func() {
				for c.calls.Load() == before { // it is asked for while it is away
					time.Sleep(10 * time.Millisecond)
				}
				once.Lock() // it is killed again when it answers
				defer once.Unlock()
				g.Serve(t)
			}()
		}
	}
	k.ok("sync", "--server", "http://"+c.serve(t), "--timeout", "120s")
	k.stored(s.address, sum, size)
	again := c.sent.Load() - size
	t.Logf("S3 was killed %d times; %d bytes of %d were sent again, in %d uploads", cuts/2, again, size, c.tries.Load())
	if cuts < 4 || again > size/2 { // a connection that is used again is not cut
		t.Errorf("%d cuts, want at least 4; %d bytes were sent again", cuts, again)
	}
}

// arrived is how much of a blob that comes in parts has arrived.
func (s *killable) arrived(sum string) int64 {
	names, err := filepath.Glob(filepath.Join(s.data, "blobs", "partial", sum+"-*"))
	if err != nil || len(names) != 1 {
		return -1
	}
	info, err := os.Stat(names[0])
	if err != nil {
		return -1
	}
	return info.Size()
}

// Two programs that upload the same video at once store it once, whole.
func TestTwoUploadsOfOneVideo(t *testing.T) {
	s := &killable{t: t, data: t.TempDir()}
	s.start()
	t.Cleanup(func() { s.kill() })
	const size = 16 * megabyte
	var group sync.WaitGroup
	var sum string
	both := make([]*kitchen, 2)
	for i := range both {
		both[i] = &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
		both[i].env["KYMOGRAM_SPOOL_DIR"] = both[i].spool()
		sum = both[i].video(size)
	}
	c := &cutter{target: s.address, cuts: make(chan int64, 4)}
	for range cap(c.cuts) {
		c.cuts <- 3 * megabyte
	}
	address := c.serve(t)
	for _, k := range both {
		group.Go(func() {
			if code, _, errs := k.run("sync", "--server", "http://"+address, "--timeout", "120s"); code != 0 {
				t.Errorf("sync: %d %s", code, errs)
			}
		})
	}
	group.Wait()
	both[0].stored(s.address, sum, size)
	t.Logf("%d bytes were sent in %d uploads", c.sent.Load(), c.tries.Load())
}

// A full disk refuses an upload and keeps what came before; with room it goes on.
func TestAnUploadToAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	s := &killable{t: t, data: filepath.Join(disk, "data")}
	s.start()
	t.Cleanup(func() { s.kill() })
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	const size = 8 * megabyte
	sum := k.video(size)
	c := &cutter{target: s.address, cuts: make(chan int64, 1)}
	c.cuts <- 3 * megabyte
	full := make(chan struct{})
	c.before = func() {
		ballast, err := os.Create(filepath.Join(disk, "ballast"))
		if err != nil {
			t.Error(err)
			return
		}
		defer ballast.Close()
		_, _ = io.Copy(ballast, zeros{}) // to the end of the disk
		close(full)
	}
	done := make(chan string, 1)
	go func() {
		code, out, errs := k.run("sync", "--server", "http://"+c.serve(t), "--timeout", "120s")
		if code != 0 {
			t.Errorf("sync: %d", code)
		}
		done <- out + errs
	}()
	<-full
	k.until("it is tried on the full disk", func() bool { return c.tries.Load() >= 3 })
	if kept := s.arrived(sum); kept < 2*megabyte || kept > 4*megabyte {
		t.Errorf("what came before is not kept: %d bytes", kept)
	}
	if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
		t.Fatal(err)
	}
	t.Log(<-done)
	k.stored(s.address, sum, size)
}

// An upload for which its owner has no place is refused, waits, and goes on when there is one.
func TestAnUploadThatFindsNoPlace(t *testing.T) {
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	const size = megabyte
	sum := k.video(size)
	s := &killable{t: t, data: t.TempDir()}
	s.start()
	t.Cleanup(func() { s.kill() })
	part := func(i, offset int, complete, body string) (status int, header http.Header) {
		hash := sha256.Sum256(strconv.AppendInt(nil, int64(i), 10))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://"+s.address+"/api/v1/blobs/"+hex.EncodeToString(hash[:])+"/upload", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/partial-upload"}, "Upload-Offset": {strconv.Itoa(offset)}, "Upload-Complete": {complete}}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode, answer.Header
	}
	for i := range 65 {
		status, header := part(i, 0, "?0", "x")
		if refused := status == http.StatusTooManyRequests && header.Get("Retry-After") != ""; refused != (i == 64) {
			t.Fatalf("upload %d: %d %v", i, status, header)
		}
	}
	c := &cutter{target: s.address}
	address, done := c.serve(t), make(chan string, 1)
	go func() {
		_, out, errs := k.run("sync", "--server", "http://"+address, "--timeout", "120s")
		done <- out + errs
	}()
	k.until("it is refused", func() bool { return c.tries.Load() >= 2 })
	if s.arrived(sum) >= 0 {
		t.Error("it found a place")
	}
	if status, _ := part(7, 1, "?1", "other"); status != http.StatusBadRequest {
		t.Errorf("an upload that ends with other bytes: %d", status)
	}
	t.Log(<-done)
	k.stored(s.address, sum, size)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
