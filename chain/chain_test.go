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
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true,
		"192.0.0.9": true, "192.0.0.10": true, "192.31.196.1": true, "192.52.193.1": true, "192.175.48.1": true,
		"2001:1::1": true, "2001:3::1": true, "2001:4:112::1": true, "2001:20::1": true, "2001:30::1": true, "2620:4f:8000::1": true, "2001:200::1": true,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false, "127.0.0.2": false, "169.254.1.1": false,
		"100.64.0.1": false, "100.127.255.255": false, "192.0.0.8": false, "192.0.2.1": false, "192.88.99.1": false, "198.18.0.1": false,
		"198.19.255.255": false, "198.51.100.1": false, "203.0.113.7": false, "0.1.2.3": false, "240.0.0.1": false,
		"224.0.0.1": false, "0.0.0.0": false, "255.255.255.255": false,
		"::1": false, "::": false, "fc00::1": false, "fe80::1": false, "fec0::1": false, "ff02::1": false, "ff0e::1": false,
		"100::1": false, "100:0:0:1::1": false, "64:ff9b:1::1": false, "2001::1": false, "2001:2::1": false, "2001:10::1": false,
		"2001:db8::1": false, "3fff::1": false, "3fff:fff::1": false, "5f00::1": false, "4000::1": false,
		// IPv4 inside IPv6.
		"::ffff:10.0.0.1": false, "::ffff:203.0.113.7": false, "::8.8.8.8": false, "::10.0.0.1": false, "64:ff9b::a00:1": false,
		"64:ff9b::7f00:1": false, "2002:a00:1::1": false, "2002:808:808::1": false, "2001:0:808:808::f5ff:fffe": false,
		// A zone makes it one of a link.
		"2606:4700::1111%eth0": false, "fe80::1%eth0": false,
		"1.0.0.1": true, "9.255.255.255": true, "11.0.0.0": true, "100.63.255.255": true, "100.128.0.0": true, "126.255.255.255": true,
		"128.0.0.0": true, "172.15.255.255": true, "172.32.0.0": true, "192.0.1.0": true, "198.17.255.255": true, "198.20.0.0": true, "223.255.255.255": true,
	} {
		if got := chain.Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) = %v", text, got)
		}
	}
	if chain.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestDialRefusesWhatIsNoNode(t *testing.T) {
	for _, endpoints := range [][]string{nil, {""}, {"http://host"}, {"wss://"}, {"host:9944"}} {
		if _, err := chain.Dial(chain.Config{Endpoints: endpoints}); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("Dial(%q): %v", endpoints, err)
		}
	}
}
