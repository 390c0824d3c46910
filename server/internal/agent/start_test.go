package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgentEnviron(t *testing.T) {
	t.Chdir("/tmp")
	got := environ([]string{"PATH=/bin", "KYMOGRAM_API_KEY=k", "METRANA_API_KEY=k", "SSL_CERT_FILE=ca.pem", "SSL_CERT_DIR=certs:/etc/ssl", "EMPTY="})
	want := []string{"PATH=/bin", "SSL_CERT_FILE=/tmp/ca.pem", "SSL_CERT_DIR=/tmp/certs:/etc/ssl", "EMPTY="}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
