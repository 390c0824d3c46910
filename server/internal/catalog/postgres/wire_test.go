package postgres_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	server "github.com/kymogram/kymogram/internal/testkit/postgres"
)

// traffic is what a database answered.
type traffic struct {
	bytes   atomic.Int64
	answers atomic.Int64 // after each it waits for the next request (ReadyForQuery)
	// Where something comes while frozen is true, nothing gets through on that connection any more.
	frozen atomic.Bool
	dead   atomic.Int64 // such connections
}

// counted is a way to a database that counts what comes from it.
func counted(t *testing.T, place string) (through string, seen *traffic) {
	t.Helper()
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	target := u.Host
	u.RawQuery += "&sslmode=disable"
	u.Host = lis.Addr().String()
	seen = &traffic{}
	go func() {
		for {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			go seen.pass(client, target)
		}
	}()
	return u.String(), seen
}

func (s *traffic) pass(client net.Conn, target string) {
	defer client.Close()
	there, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer there.Close()
	go func() { _, _ = io.Copy(there, client); there.Close() }()
	from := bufio.NewReader(there)
	for dead := false; ; {
		head, err := from.Peek(5) // what it is, and its length without that
		if err != nil {
			return
		}
		kind, size := head[0], 1+int64(binary.BigEndian.Uint32(head[1:]))
		// It is counted before the client has it.
		s.bytes.Add(size)
		if kind == 'Z' {
			s.answers.Add(1)
		}
		if !dead && s.frozen.Load() {
			dead = true
			s.dead.Add(1)
		}
		to := io.Writer(client)
		if dead {
			to = io.Discard
		}
		if _, err := io.CopyN(to, from, size); err != nil {
			return
		}
	}
}

// TestRequestsOfAnOpen: an open of a new run is few requests to the database, with attributes
// one more. The first ones also prepare statements.
func TestRequestsOfAnOpen(t *testing.T) {
	through, seen := counted(t, server.Any(t).URL(t))
	db := openAt(t, through)
	for i := range 20 {
		r := model.OpenRequest{Writer: model.WriterID{byte(i + 1)}, LocalRun: model.RunID{byte(i + 1)}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", i)}
		most := int64(3)
		if i%2 == 1 {
			r.Initial = []model.Update{{Op: model.OpSetAttribute, Path: "config/a", Value: model.IntValue(1)}, {Op: model.OpAddTags, Tags: []string{"b"}}}
			most = 4
		}
		before := seen.answers.Load()
		if _, err := db.Open(t.Context(), r, time.Now()); err != nil {
			t.Fatal(err)
		}
		if n := seen.answers.Load() - before; n > most && i >= 2 {
			t.Errorf("open %d is %d requests, at most %d", i, n, most)
		}
	}
}
