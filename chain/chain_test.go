package chain_test

import (
	"net/netip"
	"testing"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
)

func TestVersionAsInt(t *testing.T) {
	for text, want := range map[string]uint32{
		"1.8.3": 183, "1.8.13": 193, "1.9.3": 193, "0.1.0": 10, "0.1.0+g12ab": 10, "2.0.0-rc.1": 200, "10.20.30": 1230,
	} {
		if got, err := chain.VersionAsInt(text); err != nil || got != want {
			t.Errorf("VersionAsInt(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "1.2", "1.2.3.4", "a.b.c", "1.-2.3", "99999999.0.0", "1.2.x"} {
		if got, err := chain.VersionAsInt(text); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("VersionAsInt(%q) = %d, %v", text, got, err)
		}
	}
}

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"10.1.2.3": false, "172.16.0.1": false, "192.168.0.1": false, "127.0.0.2": false, "169.254.1.1": false, "100.64.0.1": false,
		"224.0.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "::1": false, "::": false, "fc00::1": false, "fe80::1": false, "ff02::1": false, "::ffff:10.0.0.1": false,
	} {
		if got := chain.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) = %v", text, got)
		}
	}
}

func TestDialRefusesWhatIsNoNode(t *testing.T) {
	for _, endpoints := range [][]string{nil, {""}, {"http://host"}, {"wss://"}, {"host:9944"}} {
		if _, err := chain.Dial(chain.Config{Endpoints: endpoints}); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("Dial(%q): %v", endpoints, err)
		}
	}
}
