package promwrite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/weight"
)

const bodyLimit = 1 << 20

// hostile are requests of about a size that ask for as much memory as they can, by version.
func hostile(size int) map[string][]byte {
	repeated := func(part []byte) []byte { return bytes.Repeat(part, size/len(part)) }
	var distinct, symbols, permuted []byte
	for i := 0; len(distinct) < size; i++ {
		distinct = append(distinct, request1(series1([]string{"a", fmt.Sprint(i)}, samples(1)))...)
		permuted = append(permuted, request1(series1([]string{"a", "b", fmt.Sprint(i), ""}, samples(1)))...)
	}
	for i := 0; len(symbols) < size; i++ {
		symbols = field(symbols, f2Symbols, binary.AppendUvarint(nil, uint64(i)))
	}
	histogram := field(nil, fHistogram1, field(nil, hPositiveDeltas, bytes.Repeat([]byte{2}, 8<<10)))
	return map[string][]byte{
		"1 empty labels":     request1(repeated([]byte{fLabels1<<3 | 2, 0})),
		"1 empty samples":    request1(repeated([]byte{fSamples<<3 | 2, 0})),
		"1 empty series":     repeated([]byte{f1Series<<3 | 2, 0}),
		"1 series":           distinct,
		"1 series unnamed":   permuted,
		"1 crowded series":   repeated(request1(append(bytes.Repeat([]byte{fLabels1<<3 | 2, 0}, maxLabels+1), samples(1)...))),
		"1 histograms":       request1(repeated(histogram)),
		"1 a histogram":      request1(field(nil, fHistogram1, field(nil, hPositiveDeltas, repeated([]byte{2})))),
		"1 empty histograms": request1(repeated([]byte{fHistogram1<<3 | 2, 0})),
		"1 exemplars":        request1(repeated([]byte{fExemplars1<<3 | 2, 0})),
		"1 metadata":         repeated([]byte{f1Metadata<<3 | 2, 0}),
		"2 symbols":          symbols,
		"2 empty symbols":    repeated([]byte{f2Symbols<<3 | 2, 0}),
		"2 references":       append([]byte{f2Symbols<<3 | 2, 0}, field(nil, f2Series, field(nil, fLabels2, repeated([]byte{0})))...),
		"2 one by one":       append([]byte{f2Symbols<<3 | 2, 0}, field(nil, f2Series, repeated([]byte{fLabels2 << 3, 0}))...),
		"2 empty samples":    field(nil, f2Series, repeated([]byte{fSamples<<3 | 2, 0})),
	}
}

// taker is ingest that stores nothing.
type taker struct{ points int }

func (*taker) Allow(context.Context, string, string) error { return nil }

func (w *taker) Append(_ context.Context, _, _ string, parts []ingest.Part) (ack model.Ack, err error) {
	for i := range parts {
		ack.Stored += uint64(parts[i].Batch.Points())
	}
	w.points = int(ack.Stored)
	return ack, nil
}

func post(r *Receiver, version byte, plain []byte) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(snappy.Encode(nil, plain)))
	message := map[byte]string{'1': message1, '2': message2}[version]
	q.Header.Set("Content-Type", mediaType+";proto="+message)
	w := httptest.NewRecorder()
	r.Handlers()["POST /api/v1/write"].ServeHTTP(w, q)
	return w
}

// A request takes at most four times the limit of its body in memory, whatever it repeats.
func TestMemoryOfARequest(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for _, size := range []int{bodyLimit / 4, growth*bodyLimit - 1<<16} {
		for name, plain := range hostile(size) {
			r := New(&taker{}, Config{}, Options{MaxBody: bodyLimit})
			sent := snappy.Encode(nil, plain)
			var code int
			read := func() {
				q := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(sent))
				q.Header.Set("Content-Type", mediaType+";proto="+map[byte]string{'1': message1, '2': message2}[name[0]])
				w := httptest.NewRecorder()
				r.write(w, q)
				code = w.Code
			}
			if got := cost.Allocated(read); got > weight.Times*bodyLimit || code >= http.StatusInternalServerError {
				t.Errorf("%s: %d, %d MiB are allocated for %d MiB", name, code, got>>20, len(plain)>>20)
			}
		}
	}
}

// A series with too many labels costs its samples, and no other's.
func TestACrowdedSeriesIsRefusedAlone(t *testing.T) {
	crowded := append(bytes.Repeat([]byte{fLabels1<<3 | 2, 0}, maxLabels+1), samples(1, 2)...)
	in := &taker{}
	w := post(New(in, Config{}, Options{MaxBody: bodyLimit}), '1', request1(crowded, series1([]string{"__name__", "m"}, samples(1, 2, 3))))
	if w.Code != http.StatusBadRequest || in.points != 3 || !bytes.Contains(w.Body.Bytes(), []byte("2 samples were refused for good")) {
		t.Errorf("%d, %d points: %s", w.Code, in.points, w.Body)
	}
}

func TestMoreRunsThanARequestMayHave(t *testing.T) {
	var plain []byte
	for i := range maxRuns + 1 {
		plain = append(plain, request1(series1([]string{"__name__", "m", "run", fmt.Sprint("r", i)}, samples(1)))...)
	}
	in := &taker{}
	w := post(New(in, Config{}, Options{MaxBody: 16 << 20}), '1', plain)
	if w.Code != http.StatusRequestEntityTooLarge || in.points != 0 || !bytes.Contains(w.Body.Bytes(), []byte("more than 10000 runs")) {
		t.Errorf("%d, %d points: %s", w.Code, in.points, w.Body)
	}
}

// What a sender with its default settings sends, and five times that, is never too much.
func TestAnHonestRequestIsNotTooLarge(t *testing.T) {
	var plain []byte
	for i := range 10_000 {
		labels := []string{"__name__", "http_request_duration_seconds_bucket", "instance", fmt.Sprint("host-", i, ":9100"), "job", "node"}
		for k := range 12 {
			labels = append(labels, fmt.Sprint("label_", k), fmt.Sprint("value-of-some-length-", k, "-", i))
		}
		plain = append(plain, request1(series1(labels, samples(float64(i))))...)
	}
	d := newDecoder((&bodies{most: 16 << 20}).budget(plain))
	if err := d.write1(plain); err != nil || errors.Is(err, errTooMany) {
		t.Errorf("%d bytes: %v", len(plain), err)
	}
}

// A body takes no more than what it is counted for.
func TestCostOfABody(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for _, size := range []int{4 << 10, 64 << 10, 256 << 10} {
		for name, plain := range hostile(size) {
			if len(plain) < size/8 {
				continue // a part of it is larger than its size
			}
			r := New(&taker{}, Config{}, Options{MaxBody: 16 << 20})
			sent := snappy.Encode(nil, plain)
			version := map[byte]string{'1': message1, '2': message2}[name[0]]
			got := cost.Allocated(func() {
				q := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(sent))
				q.Header.Set("Content-Type", mediaType+";proto="+version)
				r.write(httptest.NewRecorder(), q)
			})
			if counted := r.bodies.cost(len(plain)); int64(got) > counted {
				t.Errorf("%s, %d bytes: %d bytes are allocated, %d are counted", name, len(plain), got, counted)
			}
		}
	}
}

// Bodies that come slowly hold nothing that another caller's write needs.
func TestSlowBodiesHoldUpNobody(t *testing.T) {
	in := &taker{}
	r := New(in, Config{}, Options{MaxBody: 16 << 20})
	plain := request1(series1([]string{"__name__", "m"}, samples(1)))
	as := func(caller string, body io.Reader) (q *http.Request) {
		ctx, cancel := context.WithTimeout(share.WithCaller(t.Context(), caller), time.Minute)
		t.Cleanup(cancel)
		q = httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/write", body)
		q.Header.Set("Content-Type", mediaType)
		return q
	}
	var slow sync.WaitGroup
	defer slow.Wait()
	for range bodiesAtOnce {
		begun, client := io.Pipe()
		slow.Go(func() { r.write(httptest.NewRecorder(), as("slow", begun)) })
		if _, err := io.WriteString(client, "x"); err != nil { // until it was read
			t.Fatal(err)
		}
		defer client.Close()
	}
	w := httptest.NewRecorder()
	if r.write(w, as("other", bytes.NewReader(snappy.Encode(nil, plain)))); w.Code != http.StatusNoContent || in.points != 1 {
		t.Errorf("beside slow bodies a write was answered with %d %s, %d points are stored", w.Code, w.Body, in.points)
	}
}
