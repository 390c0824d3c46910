package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/server"
)

func TestWithin(t *testing.T) {
	failed := errors.New("failed")
	if err := server.Within(t.Context(), 0, func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("work that ends by itself: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	stops := func(ctx context.Context) error { <-ctx.Done(); return failed }
	if err := server.Within(ended, time.Minute, stops); !errors.Is(err, failed) {
		t.Errorf("work that stops: %v", err)
	}
	hangs := make(chan struct{})
	defer close(hangs)
	if err := server.Within(ended, time.Millisecond, func(context.Context) error { <-hangs; return nil }); err == nil {
		t.Error("work that hangs was waited for")
	}
}

func TestOpenTLS(t *testing.T) {
	listeners, err := server.Listen(t.Context(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer listeners.Close()
	open := func(c config.TLS) (*tls.Config, error) {
		return server.OpenTLS(config.Config{TLS: c}, t.TempDir(), listeners)
	}
	if c, err := open(config.TLS{}); c != nil || err != nil {
		t.Errorf("plain text: %v, %v", c, err)
	}
	if c, err := open(config.TLS{Mode: config.TLSSelf}); err != nil || len(c.Certificates) != 1 {
		t.Errorf("its own authority: %v", err)
	}
	if _, err := open(config.TLS{Cert: "none.pem", Key: "none.key"}); err == nil {
		t.Error("a certificate that is not there")
	}
}
