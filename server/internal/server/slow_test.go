package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/config"
)

// pipes is a listener of connections within a test's own time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// send writes a text at so many bytes a second, in so many pieces a second, until the
// other side hangs up.
func send(to io.Writer, text []byte, rate, pieces int) {
	size := max(1, rate/pieces)
	for len(text) > 0 {
		n := min(size, len(text))
		if _, err := to.Write(text[:n]); err != nil {
			return
		}
		text = text[n:]
		time.Sleep(time.Second * time.Duration(n) / time.Duration(rate))
	}
}

// slowly posts a body at a rate, and gives the status, the answer and the time it took.
func slowly(t *testing.T, m *mux, h http.Handler, head string, body []byte, rate int) (status int, text string, took time.Duration) {
	t.Helper()
	listener, begun := make(pipes, 1), time.Now()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule := Rule{Open: true, Large: r.Method == http.MethodPut}
		_, _ = m.guard(w, r, rule, h)
	})}
	here, there := net.Pipe()
	listener <- there
	go func() { _ = s.Serve(listener) }()
	defer time.Sleep(time.Minute) // of the test's time: all others end
	defer close(listener)
	defer here.Close()
	go func() {
		_, _ = io.WriteString(here, head+"\r\n\r\n")
		send(here, body, rate, 4)
	}()
	response, err := http.ReadResponse(bufio.NewReader(here), nil)
	if err != nil {
		t.Errorf("%s at %d B/s: %v after %v", head, rate, err, time.Since(begun))
		return 0, "", 0
	}
	all, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(all), time.Since(begun)
}

// A body that comes slower than the least rate ends with 408 and what to do; one of an
// honest slow client is taken, however long that lasts.
func TestABodyHasALeastRate(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte("m f=1\n"), 1000))
	_ = z.Close()
	plain := bytes.Repeat([]byte("x"), 60_000)
	chunks := []byte(strings.Repeat("400\r\n"+strings.Repeat("x", 1<<10)+"\r\n", 50) + "0\r\n\r\n")
	for _, c := range []struct {
		name, head string
		body       []byte
		rate       int
		want       int
	}{
		{"a drip", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000", plain, 1, http.StatusRequestTimeout},
		{"a slow one", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000", plain, 3000, http.StatusRequestTimeout},
		{"chunks that drip", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", chunks, 1, http.StatusRequestTimeout},
		{"gzip that drips", "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 2000", packed.Bytes(), 1, http.StatusRequestTimeout},
		{"a file that drips", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000", plain, 1, http.StatusRequestTimeout},
		{"an honest one", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000", plain, 10_000, http.StatusOK},
		{"honest chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", chunks, 10_000, http.StatusOK},
		{"an honest file", "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000", bytes.Repeat([]byte("x"), 60_000_000), 10_000, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mux{admission: newAdmission(1<<20, config.Divide(0, 1<<20), 1000), maxBody: 1 << 20}
				read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						Fail(w, r, nil, err)
					}
				})
				status, text, took := slowly(t, m, read, c.head, c.body, c.rate)
				if status != c.want || status != http.StatusOK && (!strings.Contains(text, "40 KiB") || took > 2*bodyStall) {
					t.Errorf("%d after %v: %s", status, took, text)
				}
				if used := m.admission.pool.Stats().Used + m.admission.files.Stats().Used; used != 0 {
					t.Errorf("%d are still held", used)
				}
			})
		})
	}
}

// What the server takes for itself between two reads is not the client's.
func TestOnlyWaitingForABodyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		go send(here, bytes.Repeat([]byte("x"), 100), 100, 1)
		body := &arriving{ReadCloser: there, control: there}
		for range 10 {
			time.Sleep(bodyStall)
			if _, err := body.Read(make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := body.Read(make([]byte, 10)); model.CodeOf(err) != model.CodeSlow {
			t.Errorf("nothing came: %v", err)
		}
		if _, err := body.Read(make([]byte, 10)); model.CodeOf(err) != model.CodeSlow || errors.Is(err, io.EOF) {
			t.Errorf("and then: %v", err)
		}
	})
}
