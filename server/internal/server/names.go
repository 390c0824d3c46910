package server

import (
	"net"
	"os"
	"strings"
)

// CertificateNames are what clients may call this machine, and hosts besides.
func CertificateNames(hosts []string, l *Listeners) []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, hosts...)
	for _, bound := range []string{l.HTTP(), l.GRPC()} {
		host, _, err := net.SplitHostPort(bound)
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
			names = append(names, host)
		} else if ip != nil && ip.IsUnspecified() {
			names = append(names, machineIPs()...)
		}
	}
	return names
}

// machineIPs are the addresses under which other machines may reach this one.
func machineIPs() (out []string) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil // the names still work
	}
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			out = append(out, ip.IP.String())
		}
	}
	return out
}

// KnownHosts are the names that the server answers to: those of the configuration and
// the machine's own.
func KnownHosts(configured []string) []string {
	var names []string
	for _, h := range configured {
		names = append(names, strings.ToLower(h))
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, strings.ToLower(host))
	}
	return names
}
