package subtensor

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/wallet"
)

// Server is a node and the address where it listens.
type Server struct {
	*Node
	URL  string // ws://127.0.0.1:PORT
	http *httptest.Server
}

// Start runs a node for one test. Without the dev genesis the test is skipped, and says
// so; with CHAIN=required in the environment it fails.
func Start(tb testing.TB, o Options) *Server {
	tb.Helper()
	code := Open(tb)
	return code.Serve(tb, o)
}

// Open loads the runtime for tests that start several nodes.
func Open(tb testing.TB) *Code {
	tb.Helper()
	if _, err := os.Stat(Path()); errors.Is(err, fs.ErrNotExist) {
		give := tb.Skipf
		if os.Getenv("CHAIN") == "required" {
			give = tb.Fatalf
		}
		give("the dev genesis of Subtensor is not at %s; docs/chain.md says where it comes from", Path())
	}
	code, err := Load(tb.Context(), Path())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = code.Close(tb.Context()) })
	return code
}

// Serve runs a node for one test.
func (c *Code) Serve(tb testing.TB, o Options) *Server {
	tb.Helper()
	node, err := c.NewNode(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(node)
	tb.Cleanup(server.Close)
	return &Server{Node: node, URL: "ws" + strings.TrimPrefix(server.URL, "http"), http: server}
}

// Stop ends the node for good.
func (s *Server) Stop() {
	_ = s.http.Listener.Close()
	s.Cut()
}

// Key makes a key for a test out of a name.
func Key(tb testing.TB, name string) *wallet.Key {
	tb.Helper()
	key, err := NamedKey(name)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// NamedKey is the key whose seed is the name and zeros.
func NamedKey(name string) (*wallet.Key, error) {
	var seed [32]byte
	copy(seed[:], name)
	return wallet.NewKey(seed)
}

// Fund is the storage that gives an account a balance, the only thing that a test
// needs and cannot get by a call.
func Fund(account wallet.Account, rao uint64) (key string, value []byte) {
	key = string(slices.Concat(twox(2, []byte("System")), twox(2, []byte("Account")), blake128(account[:]), account[:]))
	value = binary.LittleEndian.AppendUint32(nil, 0) // nonce
	for _, n := range []uint32{0, 1, 0} {            // consumers, providers, sufficients
		value = binary.LittleEndian.AppendUint32(value, n)
	}
	value = binary.LittleEndian.AppendUint64(value, rao)
	value = append(value, make([]byte, 16)...)                   // reserved, frozen
	return key, append(value, append(make([]byte, 15), 0x80)...) // the flag of new accounting
}

// SubnetKey is where SubtensorModule keeps a value of a subnet.
func SubnetKey(name string, netuid uint16) string {
	return string(binary.LittleEndian.AppendUint16(slices.Concat(twox(2, []byte("SubtensorModule")), twox(2, []byte(name))), netuid))
}

// HotkeyKey is where SubtensorModule keeps a value of a hotkey in a subnet, for maps
// keyed by Identity and Blake2_128Concat.
func HotkeyKey(name string, netuid uint16, hotkey wallet.Account) string {
	return SubnetKey(name, netuid) + string(blake128(hotkey[:])) + string(hotkey[:])
}

// StakeKey is where SubtensorModule keeps what a hotkey holds in a subnet.
func StakeKey(hotkey wallet.Account, netuid uint16) string {
	name := slices.Concat(twox(2, []byte("SubtensorModule")), twox(2, []byte("TotalHotkeyAlpha")))
	return string(binary.LittleEndian.AppendUint16(slices.Concat(name, blake128(hotkey[:]), hotkey[:]), netuid))
}
