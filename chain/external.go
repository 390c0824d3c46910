package chain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// serviceTimeout is for one service; they answer in well under a second.
const serviceTimeout = 5 * time.Second

// maxAddress is more than any address as text needs.
const maxAddress = 256

// DefaultIPServices are asked, in this order, for the address that this machine has
// on the internet. They learn that address and nothing else.
func DefaultIPServices() []string {
	return []string{"https://checkip.amazonaws.com", "https://api.ipify.org", "https://icanhazip.com", "https://ifconfig.me/ip"}
}

// ExternalIP is the configured address, else what the first service says that
// answers with an address of the internet.
func (s *Subtensor) ExternalIP(ctx context.Context) (netip.Addr, error) {
	if s.config.ExternalIP.IsValid() {
		return s.config.ExternalIP.Unmap(), nil
	}
	var failures []error
	for _, service := range s.config.IPServices {
		addr, err := s.ask(ctx, service)
		if err == nil {
			s.log.Debug("found the external address", "ip", addr, "service", service)
			return addr, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", service, err))
	}
	return netip.Addr{}, noAddress(failures)
}

func (s *Subtensor) ask(ctx context.Context, service string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, service, http.NoBody)
	if err != nil {
		return netip.Addr{}, err
	}
	request.Header.Set("Accept", "text/plain")
	response, err := s.config.HTTP.Do(request)
	if err != nil {
		return netip.Addr{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return netip.Addr{}, fmt.Errorf("it answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAddress))
	if err != nil {
		return netip.Addr{}, err
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(string(body)))
	if err != nil {
		return netip.Addr{}, errors.New("its answer is not an address")
	}
	if addr = addr.Unmap(); !s.config.AllowPrivate && !Public(addr) {
		return netip.Addr{}, fmt.Errorf("it says %s, which is not an address of the internet", addr)
	}
	return addr, nil
}
