package chain

import "net/netip"

// special are the IPv4 blocks of IANA's special-purpose registry (RFC 6890 and its
// updates) that are not globally reachable, and multicast.
var special = prefixes(
	"0.0.0.0/8",       // this network
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared by customers of a provider
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments, but see global
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // deprecated relays of 6to4
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and broadcast
	// IPv6: of 2000::/3, all that is allocated, these are special.
	"2001::/23",     // protocol assignments, and Teredo, but see global
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4
	"3fff::/20",     // documentation
)

// global are globally reachable parts of blocks that are not.
var global = prefixes(
	"192.0.0.9/32", "192.0.0.10/32", // anycast of port control and TURN
	"2001:1::1/128", "2001:1::2/128", "2001:1::3/128", // the same, and of DNS-SD
	"2001:3::/32",     // AMT
	"2001:4:112::/48", // AS112
	"2001:20::/28",    // ORCHIDv2
	"2001:30::/28",    // drone remote ID
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func within(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

var (
	unicast6 = netip.MustParsePrefix("2000::/3")     // all that is allocated to hosts
	nat64    = netip.MustParsePrefix("64:ff9b::/96") // IPv4 in the last four bytes
)

// Public reports whether an address is one of the internet, as IANA's special-purpose
// registries have it: https://www.iana.org/assignments/iana-ipv4-special-registry and
// iana-ipv6-special-registry, "Globally Reachable". What they leave open (6to4, Teredo) is
// not public. An IPv4 address inside IPv6 (::ffff:0:0/96, 64:ff9b::/96) counts as itself.
// An address with a zone belongs to one link.
func Public(addr netip.Addr) bool {
	if addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if addr.Is6() && !unicast6.Contains(addr) {
		return false
	}
	return addr.IsValid() && (!within(special, addr) || within(global, addr))
}
