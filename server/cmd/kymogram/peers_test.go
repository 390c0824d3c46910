package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// servePeers starts two servers of one catalog. Each has points of its own.
func servePeers(t *testing.T) (one, two *kitchen) {
	t.Helper()
	place := postgres.Start(t).URL(t)
	one = serveKitchen(t, "--catalog", place)
	secret, err := os.ReadFile(filepath.Join(one.env["HOME"], "data", "blob.key"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "blob.key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	two = serveKitchen(t, "--catalog", place, "--data", folder)
	file := auth.CredentialsPath(two.getenv)
	if err := auth.SaveCredentials(t.Context(), file, one.key(), "http://"+two.address); err != nil {
		t.Fatal(err)
	}
	return one, two
}

// get asks a server with a key; the answer's body is the caller's to close.
func (k *kitchen) get(ctx context.Context, path, key, lastEvent string) *http.Response {
	k.t.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+k.address+path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+key)
	if lastEvent != "" {
		q.Header.Set("Last-Event-ID", lastEvent)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer
}

// sseEvent is one of a stream of events.
type sseEvent struct{ id, event, run string }

// events follows the events of a path; the channel is closed with the stream.
func (k *kitchen) events(path, key, lastEvent string) <-chan sseEvent {
	k.t.Helper()
	ctx, end := context.WithCancel(context.Background())
	answer := k.get(ctx, path, key, lastEvent)
	if answer.StatusCode != http.StatusOK {
		k.t.Fatal(answer.Status)
	}
	out := make(chan sseEvent, 1000)
	lines := bufio.NewScanner(answer.Body)
	go func() {
		defer close(out)
		defer answer.Body.Close()
		var e sseEvent
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.event = value
			case "data":
				var doc struct{ Run string }
				_ = json.Unmarshal([]byte(value), &doc) // a run that is none is not the one that is looked for
				e.run = doc.Run
			case "":
				if e.event != "" {
					out <- e
				}
				e = sseEvent{}
			}
		}
	}()
	k.t.Cleanup(func() {
		end()
		for range out {
		}
	})
	return out
}

// next waits for an event of a run, or for a reset, which stands for any; only that where run is "".
func next(t *testing.T, events <-chan sseEvent, run string) sseEvent {
	t.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case e, open := <-events:
			if !open {
				t.Fatalf("the stream ended before an event of %q", run)
			}
			if e.event == "reset" || run != "" && e.run == run {
				return e
			}
		case <-end:
			t.Fatalf("there is no event of %q", run)
		}
	}
}

func pointsFrom(first uint64, step int64) *kymogramv1.Batch {
	return &kymogramv1.Batch{
		First: first, Last: first,
		Series: []*kymogramv1.SeriesDefinition{{Id: 1, Metric: "loss", Scale: "ML_STEP", Kind: 1}},
		Groups: []*kymogramv1.RowGroup{{
			Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: []int64{step}}}, TimeNs: []int64{step}, Seq: []uint32{0},
			Columns: []*kymogramv1.Column{{Series: 1, Floats: []float64{0.5}}},
		}},
	}
}

// TestPeersShareNews: a reader at one server hears of points and changes that come to the other.
// A reader that comes from the other server reads everything again.
func TestPeersShareNews(t *testing.T) {
	one, two := servePeers(t)
	const project = "/api/v1/live?project=lab/digits"
	events := two.events(project, one.key(), "")
	w := one.open(one.dial(), model.OpenRequest{Writer: model.WriterID{1}, Workspace: "lab", Project: "digits", RunName: "a", Host: "box"})
	next(t, events, w.run)
	for i := range 3 {
		for len(events) > 0 {
			<-events
		}
		w.send(pointsFrom(uint64(i+1), int64(i)))
		next(t, events, w.run)
	}
	if refusal := one.post("/api/v1/runs/"+w.run+"/restore", nil, http.Header{}, nil); refusal != "" {
		t.Fatal(refusal)
	}
	last := next(t, events, w.run)
	next(t, one.events(project, one.key(), last.id), "")
}

// TestPeersShareRevocations: a key that is revoked at one server opens nothing at the other,
// and ends its streams there.
func TestPeersShareRevocations(t *testing.T) {
	one, two := servePeers(t)
	secret := strings.TrimSpace(one.ok("key", "create", "--name", "reader", "--scope", "read"))
	one.logRun("a") // a project to read
	events := two.events("/api/v1/live?project=lab/digits", secret, "")
	var id string
	for line := range strings.Lines(one.ok("key", "list")) {
		if strings.Contains(line, "reader") {
			id = strings.Fields(line)[0]
		}
	}
	one.ok("key", "revoke", id)
	two.until("the key is refused", func() bool {
		answer := two.get(t.Context(), "/api/v1/projects", secret, "")
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusUnauthorized
	})
	for range events { // until it ends
	}
}

// TestPeersShareDeletions: points of a run that is deleted at one server are refused at the
// other, to the stream that is open there, and taken again after a restore.
func TestPeersShareDeletions(t *testing.T) {
	one, two := servePeers(t)
	w := two.open(two.dial(), model.OpenRequest{Writer: model.WriterID{1}, Workspace: "lab", Project: "digits", RunName: "a", Host: "box"})
	sent := uint64(0)
	refused := func() bool {
		sent++
		ack := w.say(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: pointsFrom(sent, int64(sent))}}).GetAck()
		return len(ack.GetRefused()) > 0
	}
	if refused() {
		t.Fatal("points were refused")
	}
	one.ok("runs", "delete", w.run)
	two.until("points are refused", refused)
	one.ok("runs", "restore", w.run)
	two.until("points are taken", func() bool { return !refused() })
}
