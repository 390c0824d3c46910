package subnet_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/subnet"
)

func TestErrorsHaveTheNamesOfSubstrateInterface(t *testing.T) {
	for want, err := range map[string]error{
		`{"ok":true,"error":null,"outcome":null}`:                                                              nil,
		`{"ok":false,"error":{"type":"Module","name":"InvalidPort","docs":["The port is 0."]},"outcome":null}`: &chain.RefusedError{Type: "Module", Name: "InvalidPort", Docs: "The port is 0."},
		`{"ok":false,"error":{"type":"Error","name":"internal","docs":["lost"]},"outcome":null}`:               errors.New("lost"),
	} {
		done := subnet.Served("5F", nil, err)
		var out strings.Builder
		got, merr := json.Marshal(done)
		if perr := done.Print(&out); merr != nil || perr != nil || string(got) != want || !errors.Is(done.Err(), err) {
			t.Errorf("%s, want\n%s", got, want)
		}
		if (out.String() == "served for 5F\n") != (err == nil) {
			t.Error(out.String())
		}
	}
	limited := subnet.Served("5F", nil, &chain.RateLimitError{Blocks: 3})
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
	log := subnet.Log(&out, false).With("a", 1)
	log.Info("info")
	log.Warn("warning")
	log.Error("error")
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "msg=warning a=1") {
		t.Error(got)
	}
}

func TestPlace(t *testing.T) {
	env := map[string]string{}
	get := func(name string) string { return env[name] }
	for want, p := range map[string]subnet.Place{
		"which chain?":   {},
		"which subnet?":  {Endpoints: []string{"ws://a"}, Netuid: -1},
		`--ip is "bad"`:  {Endpoints: []string{"ws://a"}, IP: "bad"},
		"the named wins": {Endpoints: []string{"ws://a"}, IP: "1.2.3.4"},
	} {
		c, err := p.Config(get)
		if err == nil && (c.Endpoints[0] != "ws://a" || c.ExternalIP != netip.MustParseAddr("1.2.3.4")) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, c, err)
		}
	}
	env[subnet.EndpointsEnv] = "ws://b,ws://c"
	if c, err := new(subnet.Place).Config(get); err != nil || len(c.Endpoints) != 2 {
		t.Errorf("of the environment: %+v, %v", c, err)
	}
}

func TestPassword(t *testing.T) {
	if subnet.Password(func(string) string { return "" }, strings.NewReader("x"), nil, "w/h") != nil {
		t.Error("who would be asked?")
	}
	ask := subnet.Password(func(name string) string { return name }, nil, nil, "w/h")
	if word, err := ask(); err != nil || word != subnet.PasswordEnv {
		t.Errorf("%s, %v", word, err)
	}
}

func TestRecord(t *testing.T) {
	none := subnet.Record{Hotkey: "5F", Netuid: 2}
	if text, err := json.Marshal(none); err != nil || string(text) != `{"hotkey":"5F","info":null,"netuid":2}` {
		t.Errorf("%s, %v", text, err)
	}
	if err := none.Print(new(strings.Builder)); model.CodeOf(err) != model.CodeNotFound {
		t.Error(err)
	}
}
