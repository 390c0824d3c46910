package chain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// world is a clock, and services that say an address or fail.
type world struct {
	now   time.Time
	says  func(service string) (string, error)
	asked []time.Time
	names []string
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked = append(w.asked, w.now)
	w.names = append(w.names, r.URL.Host)
	text, err := w.says(r.URL.Host)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(bytes.NewReader([]byte(text))), Header: http.Header{}}, nil
}

func (w *world) addresses(t *testing.T, services ...string) *addresses {
	t.Helper()
	urls := make([]string, 0, len(services))
	for _, name := range services {
		urls = append(urls, "http://"+name)
	}
	s, err := Dial(Config{
		Endpoints: []string{"ws://127.0.0.1:1"}, IPServices: urls, HTTP: &http.Client{Transport: w}, Now: func() time.Time { return w.now },
		Sleep: func(_ context.Context, d time.Duration) error { w.now = w.now.Add(d); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &addresses{subtensor: s, pause: time.Minute}
}

// busiest is the most look-ups of any 24 hours.
func (w *world) busiest() (most int) {
	for i, first := range w.asked {
		n := 0
		for _, at := range w.asked[i:] {
			if at.Sub(first) < 24*time.Hour {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

const here4, here6, moved4 = "93.184.216.34", "2606:2800:220:1::1", "93.184.216.99"

func recorded(text string) *PrometheusInfo {
	ip, kind := numberOf(netip.MustParseAddr(text))
	return &PrometheusInfo{Block: 1, Version: 1, IP: new(big.Int).Set(ip), Port: 9101, IPType: kind}
}

var errDown = errors.New("down")

// A host with both protocols: two services are asked over IPv4, two over IPv6, and each
// look-up may fail. The record is right all the time and stays.
func TestARightRecordSurvivesFailedLookUps(t *testing.T) {
	for seed := range uint64(20) {
		source := rand.New(rand.NewPCG(seed, 1))
		w := &world{now: time.Unix(0, 0)}
		w.says = func(service string) (string, error) {
			if source.IntN(100) < int(seed)*5 {
				return "", errDown
			}
			return map[string]string{"a": here4, "b": here4, "c": here6, "d": here6}[service], nil
		}
		a := w.addresses(t, "a", "b", "c", "d")
		for end := w.now.Add(14 * 24 * time.Hour); w.now.Before(end); w.now = w.now.Add(time.Minute) {
			if got, err := a.find(t.Context(), recorded(here4)); err != nil || got.String() != here4 {
				t.Fatalf("%d%% fail, after %s: %s, %v", seed*5, w.now.Sub(time.Unix(0, 0)), got, err)
			}
		}
		if n := w.busiest(); n > 24 {
			t.Errorf("%d%% fail: %d look-ups a day", seed*5, n)
		}
	}
}

// Three look-ups of two services must agree, within ten minutes.
func TestTheAddressChangesWhenServicesAgree(t *testing.T) {
	for name, c := range map[string]struct {
		services []string
		down     string
		changes  bool
	}{
		"all":                     {[]string{"a", "b", "c", "d"}, "", true},
		"two":                     {[]string{"a", "b"}, "", true},
		"two of four are down":    {[]string{"a", "b", "c", "d"}, "ac", true},
		"all but one are down":    {[]string{"a", "b", "c"}, "ac", false},
		"one":                     {[]string{"a"}, "", false},
		"the same service thrice": {[]string{"a", "a", "a"}, "", false},
	} {
		w := &world{now: time.Unix(0, 0)}
		address := here4
		w.says = func(service string) (string, error) {
			if bytes.Contains([]byte(c.down), []byte(service)) {
				return "", errDown
			}
			return address, nil
		}
		a := w.addresses(t, c.services...)
		began := w.now
		var changed time.Time
		for ; w.now.Before(began.Add(48 * time.Hour)); w.now = w.now.Add(time.Minute) {
			if w.now.Sub(began) > 24*time.Hour {
				address = moved4
			}
			got, err := a.find(t.Context(), recorded(here4))
			if err != nil {
				t.Fatal(err)
			}
			if got.String() == moved4 && changed.IsZero() {
				changed = w.now
				last := len(w.asked) - 1
				services := map[string]bool{}
				agreed := 0
				for i := last; i >= 0 && w.now.Sub(w.asked[i]) <= 10*time.Minute; i-- {
					if !bytes.Contains([]byte(c.down), []byte(w.names[i])) {
						services[w.names[i]], agreed = true, agreed+1
					}
				}
				if agreed < 3 || len(services) < 2 {
					t.Errorf("%s: it changed after %d look-ups of %d services", name, agreed, len(services))
				}
			}
		}
		if changed.IsZero() == c.changes {
			t.Errorf("%s: changed at %s", name, changed)
		}
		if after := changed.Sub(began) - 24*time.Hour; c.changes && after > 5*time.Hour {
			t.Errorf("%s: it took %s", name, after)
		}
	}
}

// A service that errs for once, and one that always does, change nothing.
func TestOneServiceThatErrs(t *testing.T) {
	w := &world{now: time.Unix(0, 0)}
	w.says = func(service string) (string, error) {
		if service == "b" {
			return moved4, nil
		}
		return here4, nil
	}
	a := w.addresses(t, "a", "b", "c")
	for range 7 * 24 * 60 {
		if got, err := a.find(t.Context(), recorded(here4)); err != nil || got.String() != here4 {
			t.Fatalf("%s, %v", got, err)
		}
		w.now = w.now.Add(time.Minute)
	}
	if n := w.busiest(); n > 24 {
		t.Errorf("%d look-ups a day", n)
	}
}

// Without any address it is asked for soon again, and then seldom.
func TestNoAddress(t *testing.T) {
	w := &world{now: time.Unix(0, 0), says: func(string) (string, error) { return "", errDown }}
	a := w.addresses(t, "a", "b", "c", "d")
	for range 3 * 24 * 60 {
		if got, err := a.find(t.Context(), nil); err == nil {
			t.Fatalf("%s, %v", got, err)
		}
		w.now = w.now.Add(time.Minute)
	}
	if n := w.busiest(); n > 24 || n < 10 {
		t.Errorf("%d look-ups a day", n)
	}
	w.says = func(string) (string, error) { return here4, nil }
	w.now = w.now.Add(askEvery)
	if got, err := a.find(t.Context(), nil); err != nil || got.String() != here4 {
		t.Errorf("%s, %v", got, err)
	}
}
