package subnet_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/server/internal/subnet"
)

func TestErrorsHaveTheNamesOfSubstrateInterface(t *testing.T) {
	for want, err := range map[string]error{
		`{"ok":true,"error":null,"outcome":null}`:                                                              nil,
		`{"ok":false,"error":{"type":"Module","name":"InvalidPort","docs":["The port is 0."]},"outcome":null}`: &chain.RefusedError{Type: "Module", Name: "InvalidPort", Docs: "The port is 0."},
		`{"ok":false,"error":{"type":"Error","name":"internal","docs":["lost"]},"outcome":null}`:               errors.New("lost"),
	} {
		got, merr := json.Marshal(subnet.Served(nil, err))
		same, serr := json.Marshal(subnet.Submitted(err == nil, err))
		if merr != nil || serr != nil || string(got) != want || string(same) != want {
			t.Errorf("%s\n%s, want\n%s", got, same, want)
		}
	}
	limited := subnet.Served(nil, &chain.RateLimitError{Blocks: 3})
	if limited.Error.Type != "RateLimit" || limited.Error.Name != "ServingRateLimitExceeded" {
		t.Errorf("%+v", limited.Error)
	}
}

func TestEndpoints(t *testing.T) {
	uid := uint16(4)
	var out strings.Builder
	err := subnet.PrintEndpoints(&out, &chain.Listing{Endpoints: []chain.Endpoint{
		{UID: &uid, Address: netip.MustParseAddrPort("1.2.3.4:5"), Version: 183, AgeBlocks: 6, Hotkey: "5F"}, {Address: netip.MustParseAddrPort("[::1]:7"), Hotkey: "5G"},
	}})
	if want := "UID  ADDRESS    VERSION  AGE       HOTKEY\n4    1.2.3.4:5  183      6 blocks  5F\n-    [::1]:7    0        0 blocks  5G\n"; err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestOnlyWarnings(t *testing.T) {
	var out strings.Builder
	log := subnet.Warnings(slog.New(slog.NewTextHandler(&out, nil))).With("a", 1)
	log.Info("info")
	log.Warn("warning")
	log.Error("error")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=warning a=1") {
		t.Error(got)
	}
}
