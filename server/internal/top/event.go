package top

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// How a broken stream of events is opened again.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	// silence is how long a stream may say nothing: more than two heartbeats.
	silence = 5 * time.Second
)

// news is an event of the stream, or a change of the stream itself.
type news struct {
	Points uint64          `json:"points"`
	Series uint64          `json:"series"`
	Status model.RunStatus `json:"status"`

	all bool  // events may be missing: read everything again
	err error // the stream broke; the next news says that it is back
}

// follow passes on the events of a run until ctx ends. When the server restarts, it opens a
// new stream.
func follow(ctx context.Context, server *remote.Client, id string, tell chan<- news) {
	wait := firstRetry
	for ctx.Err() == nil {
		heard, err := stream(ctx, server, id, tell)
		if heard {
			wait = firstRetry
		}
		send(ctx, tell, news{err: err})
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}

// stream reads one stream to its end; heard says whether it was opened.
func stream(ctx context.Context, server *remote.Client, id string, tell chan<- news) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	response, err := server.Send(ctx, http.MethodGet, "/api/v1/live", url.Values{"run": {id}}, nil)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	send(ctx, tell, news{all: true})
	lines := bufio.NewScanner(response.Body)
	for event := ""; lines.Scan(); {
		quiet.Reset(silence)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data" && event == "reset":
			send(ctx, tell, news{all: true})
		case name == "data":
			var n news
			if json.Unmarshal([]byte(value), &n) != nil {
				n = news{all: true} // what it said is found by reading everything
			}
			send(ctx, tell, n)
		}
	}
	if err := lines.Err(); err != nil {
		return true, err
	}
	return true, model.Errorf(model.CodeUnavailable, "the server ended the stream of events")
}

func send(ctx context.Context, tell chan<- news, n news) {
	select {
	case tell <- n:
	case <-ctx.Done():
	}
}
