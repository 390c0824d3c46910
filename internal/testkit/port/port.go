// Package port finds ports for servers of tests that cannot listen on port 0.
package port

import (
	"net"
	"testing"
)

// Free are ports on 127.0.0.1 that nobody listens on. Another program may take one before the
// server of the test does.
func Free(t testing.TB, n int) []int {
	t.Helper()
	out := make([]int, n)
	for i := range out {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()                       // together at the end, so that no port is given twice
		out[i] = listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
	}
	return out
}
