package discovery

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

func endpoint(uid int, address string) chain.Endpoint {
	e := chain.Endpoint{Netuid: 7, Hotkey: "hotkey", Address: netip.MustParseAddrPort(address), Version: 183, Block: 10, AgeBlocks: 5}
	if uid >= 0 {
		place := uint16(uid)
		e.UID = &place
	}
	return e
}

func TestDiscoveryLeavesOutWhatMustNotBeScraped(t *testing.T) {
	listing := &chain.Listing{Invalid: 1, Endpoints: []chain.Endpoint{
		endpoint(0, "8.8.8.8:9101"), endpoint(1, "[2606:4700::1111]:9102"), endpoint(2, "10.0.0.1:1"), endpoint(3, "127.0.0.2:1"),
		endpoint(4, "169.254.169.254:80"), endpoint(5, "[::ffff:192.168.0.1]:1"), endpoint(6, "203.0.113.7:1"), endpoint(7, "[64:ff9b::a00:1]:1"),
		endpoint(8, "[2002:a00:1::1]:1"), endpoint(9, "192.0.0.8:1"), endpoint(-1, "8.8.4.4:1"),
	}}
	list := func(context.Context, int) (*chain.Listing, error) { return listing, nil }
	got, err := New(list, false, time.Now).Targets(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	label := func(uid string) map[string]string {
		return map[string]string{"netuid": "7", "hotkey": "hotkey", "uid": uid, "version": "183", "__meta_bittensor_age_blocks": "5"}
	}
	want := &httpapi.Targets{List: []httpapi.Target{
		{Targets: []string{"8.8.8.8:9101"}, Labels: label("0")}, {Targets: []string{"[2606:4700::1111]:9102"}, Labels: label("1")},
	}}
	want.LeftOut.Private, want.LeftOut.Gone, want.LeftOut.Invalid = 8, 1, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got, err = New(list, true, time.Now).Targets(t.Context(), 7)
	if err != nil || len(got.List) != 10 || got.LeftOut.Private != 0 || got.LeftOut.Gone != 1 {
		t.Errorf("with private ones: %+v, %v", got, err)
	}
}

func TestDiscoveryAsksTheChainSeldom(t *testing.T) {
	now, asked, broken := time.Unix(0, 0), 0, error(nil)
	d := New(func(context.Context, int) (*chain.Listing, error) { asked++; return &chain.Listing{}, broken }, false, func() time.Time { return now })
	look := func(netuid uint16) error { _, err := d.Targets(t.Context(), netuid); return err }
	for range 3 {
		if err := look(1); err != nil {
			t.Fatal(err)
		}
	}
	_ = look(2)
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
	now, broken = now.Add(maxAge), errors.New("gone")
	if err := look(1); err == nil || asked != 3 {
		t.Errorf("an old answer was given: %v after %d", err, asked)
	}
	broken = nil
	if err := look(1); err != nil || asked != 4 {
		t.Errorf("a failure was kept: %v after %d", err, asked)
	}
	for netuid := range uint16(1000) {
		_ = look(netuid)
	}
	if len(d.kept) > maxSubnets {
		t.Errorf("%d answers are kept", len(d.kept))
	}
}
