package httpapi_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

type fakeDiscovery struct{ err error }

func (f fakeDiscovery) Targets(_ context.Context, netuid uint16) (*httpapi.Targets, error) {
	out := new(httpapi.Targets)
	if netuid == 27 {
		out.List = []httpapi.Target{{Targets: []string{"[2606:4700::1111]:9101"}, Labels: map[string]string{"netuid": "27"}}}
		out.LeftOut.Private, out.LeftOut.Gone, out.LeftOut.Invalid = 1, 2, 3
	}
	return out, f.err
}

func TestServiceDiscovery(t *testing.T) {
	l := newLab(t, httpapi.Options{Discovery: fakeDiscovery{}})
	for query, want := range map[string]string{
		"27":    `[{"targets":["[2606:4700::1111]:9101"],"labels":{"netuid":"27"}}]`,
		"1":     `[]`,
		"":      "which subnet",
		"65536": "from 0 to 65535",
		"-1":    "from 0 to 65535",
		"x":     "whole number",
	} {
		answer := l.do("GET", "/sd/bittensor", values("netuid", query), "")
		if !strings.Contains(string(answer.body), want) {
			t.Errorf("netuid %q: %s", query, answer.body)
		}
	}
	answer := l.do("GET", "/sd/bittensor", values("netuid", "27"), "")
	if answer.header.Get("Content-Type") != "application/json" || answer.header.Get("X-Kymogram-Left-Out") != "private=1, gone=2, invalid=3" {
		t.Errorf("headers %v", answer.header)
	}
	l = newLab(t, httpapi.Options{Discovery: fakeDiscovery{model.Errorf(model.CodeUnavailable, "no node answers")}})
	if answer := l.do("GET", "/sd/bittensor", values("netuid", "27"), ""); answer.status != 503 {
		t.Errorf("without a node: %d %s", answer.status, answer.body)
	}
	l = newLab(t, httpapi.Options{})
	if answer := l.do("GET", "/sd/bittensor", values("netuid", "27"), ""); answer.status != 404 {
		t.Errorf("without a chain: %d %s", answer.status, answer.body)
	}
}
