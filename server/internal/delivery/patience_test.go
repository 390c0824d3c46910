package delivery_test

import (
	"net"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/delivery"
)

// A sync to a server that is away ends after its patience, not after twice as long: what
// lies in the spool at the beginning is no news.
func TestPatience(t *testing.T) {
	const patience = 3 * time.Second
	delivery.SetPatience(patience)
	t.Cleanup(func() { delivery.SetPatience(30 * time.Second) })
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + free.Addr().String()
	_ = free.Close()
	in := folder(t)
	logged(t, in, "r", 10)
	began := time.Now()
	out, err := delivery.Process{Env: noEnv, Err: t.Output()}.Sync(t.Context(), in, delivery.Request{Server: address})
	if err != nil || out.Left.Writers != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if waited := time.Since(began); waited < patience || waited >= 2*patience {
		t.Errorf("it waited %s", waited)
	}
}
