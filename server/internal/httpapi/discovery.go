package httpapi

import (
	"context"
	"math"
	"net/http"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// Discovery finds endpoints to scrape; package chain does, wired in cmd.
type Discovery interface {
	// Targets lists the endpoints of a Bittensor subnet.
	Targets(ctx context.Context, netuid uint16) (*Targets, error)
}

// Targets is what may be scraped, and how much was left out.
type Targets struct {
	List []Target
	// LeftOut counts records that are no targets: Private addresses, hotkeys that
	// are Gone from the subnet, and records that are Invalid.
	LeftOut struct{ Private, Gone, Invalid int }
}

// Target is one entry of Prometheus' HTTP service discovery.
type Target struct {
	Targets []string          `json:"targets"` // HOST:PORT, IPv6 in brackets
	Labels  map[string]string `json:"labels"`
}

// leftOutHeader carries what the list itself has no place for.
const leftOutHeader = "X-Kymogram-Left-Out"

// bittensor answers Prometheus' HTTP service discovery with the endpoints that a
// subnet's neurons registered on chain.
func (a *API) bittensor(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "netuid")
	if p.err == nil && p.text("netuid") == "" {
		p.fail(model.Errorf(model.CodeInvalid, "which subnet?").WithHint("give netuid=N"))
	}
	netuid := p.number("netuid")
	if p.err == nil && (*netuid < 0 || *netuid > math.MaxUint16) {
		p.fail(model.Errorf(model.CodeInvalid, "netuid is %d, it must be from 0 to %d", *netuid, math.MaxUint16))
	}
	if p.err != nil {
		return p.err
	}
	if a.options.Discovery == nil {
		return model.Errorf(model.CodeNotFound, "this server knows no Bittensor chain").
			WithHint("start it with --chain wss://HOST[:PORT], or set chain.endpoints")
	}
	found, err := a.options.Discovery.Targets(r.Context(), uint16(*netuid))
	if err != nil {
		return err
	}
	out := found.LeftOut
	w.Header().Set(leftOutHeader, "private="+strconv.Itoa(out.Private)+", gone="+strconv.Itoa(out.Gone)+", invalid="+strconv.Itoa(out.Invalid))
	list := found.List
	if list == nil {
		list = []Target{}
	}
	return writeJSON(w, list)
}
