package influx

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// all reads a body that is one part.
func (d *decoder) all(body string) error {
	_, err := d.decode([]byte(body), len(body))
	return err
}

const bodyLimit = 4 << 20

// taker is ingest that stores nothing.
type taker struct {
	mu               sync.Mutex
	points, requests int
}

func (*taker) Allow(context.Context, string, string) error { return nil }

func (w *taker) Append(_ context.Context, _, _ string, parts []ingest.Part) (ack model.Ack, err error) {
	for i := range parts {
		ack.Stored += uint64(parts[i].Batch.Points())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.points += int(ack.Stored)
	w.requests++
	return ack, nil
}

func receiver(t testing.TB, in Ingest, most int64) *Receiver {
	t.Helper()
	r, err := New(in, Config{}, Options{MaxBody: most, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write(r *Receiver, body []byte, packed bool) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, "/api/v2/write?bucket=b", bytes.NewReader(body))
	if packed {
		q.Header.Set("Content-Encoding", "gzip")
	}
	w := httptest.NewRecorder()
	r.write(w, q, version2)
	return w
}

func pack(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain)
	_ = z.Close()
	return b.Bytes()
}

// numbered repeats a text with a number in it.
func numbered(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostile are bodies of about a size that ask for as much memory or time as they can.
func hostile(size int) map[string]string {
	tags := numbered(size, ",%d=1")
	return map[string]string{
		"points":            strings.Repeat("m f=1\n", size/6),
		"empty texts":       strings.Repeat("m f=\"\"\n", size/7),
		"a field often":     "m " + strings.Repeat("f=1,", size/4) + "f=1\n",
		"fields of a line":  "m " + numbered(size, "%d=1,") + "f=1\n",
		"series of fields":  numbered(size, "m %d=1\n"),
		"series of names":   numbered(size, "%d f=1\n"),
		"series of tags":    numbered(size, "m,a=%d f=1\n"),
		"runs":              numbered(size, "m,run=%d f=1\n"),
		"attempts":          numbered(size, "m,runtime_id=%d f=1\n"),
		"attributes":        numbered(size, "m,runtime_id=%d"+numbered(4000, ",config_%%d=1")+" f=1\n"),
		"shapes":            numbered(size, "m f=1,%d=1\n"),
		"axes":              numbered(size, "m,step=%d f=1\n"),
		"a line of tags":    "m" + tags + " f=1\n",
		"lines of tags":     numbered(size, strings.ReplaceAll(tags[:5000], ",", ",%[1]d")+" f=1\n"),
		"wide lines":        strings.Repeat("m"+numbered(400, ",%d=1")+" f=1\n", size/400),
		"unsorted lines":    numbered(size, "m,z=%d,y=1,x=1,w=1,v=1,u=1,t=1,s=1,r=1,q=1 f=1\n"),
		"escapes":           "m,a=" + strings.Repeat("\\ ", size/2) + " f=1\n",
		"an escaped field":  "m " + strings.Repeat("\\,", size/2) + "=1\n",
		"a text":            "m f=\"" + strings.Repeat("\\\"", size/2) + "\"\n",
		"alternating":       strings.Repeat("m f=1,g=1\nm f=1,g=1i\n", size/21),
		"turns":             strings.Repeat("m f=1\nm,step=1 f=1\nm f=1,g=1\n", size/29),
		"shapes in turn":    strings.Repeat(numbered(size/100, "m f=1,%d=1\n"), 100),
		"empty lines":       strings.Repeat("\n", size),
		"comments":          strings.Repeat("#\n", size/2),
		"a bad line at end": strings.Repeat("m f=1\n", size/6) + "m",
		"no end":            "m f=\"" + strings.Repeat("\n", size),
	}
}

// BenchmarkHostile reads bodies of 16 MiB, or refuses them: at most a second of processor
// time each.
func BenchmarkHostile(b *testing.B) {
	for name, plain := range hostile(16<<20 - 1<<16) {
		b.Run(name, func(b *testing.B) {
			r, code, took := receiver(b, &taker{}, 16<<20), 0, time.Duration(0)
			for b.Loop() {
				took = cost.Time(func() { code = write(r, []byte(plain), false).Code })
			}
			b.ReportMetric(took.Seconds(), "cpu-s/op")
			b.ReportMetric(float64(code), "status")
		})
	}
}

// A request takes at most four times the limit of its body in memory, whatever it repeats.
func TestMemoryOfARequest(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for _, packed := range []bool{false, true} {
		if packed && testing.Short() {
			break
		}
		size := bodyLimit - 1<<16
		if packed {
			size *= growth
		}
		for name, plain := range hostile(size) {
			r := receiver(t, &taker{}, bodyLimit)
			body := []byte(plain)
			if packed {
				body = pack(body)
			}
			var w *httptest.ResponseRecorder
			peak := cost.Peak(weight.Times*bodyLimit, func() { w = write(r, body, packed) })
			if peak > weight.Times*bodyLimit || w.Code >= http.StatusInternalServerError {
				t.Errorf("%s, packed %v: %d, %d kB of memory for %d kB", name, packed, w.Code, peak>>10, len(plain)>>10)
			}
		}
	}
}

// A tag that counts steps makes each line's head another one; it costs no more than its row.
func TestLinesOfSteps(t *testing.T) {
	const lines = 20_000
	var body strings.Builder
	for i := range lines {
		fmt.Fprintf(&body, "m,host=h,window=%d,run=r,step=%d f=1 %d\n", i/100, i, i+1)
	}
	rules := defaultRules(t)
	var d *decoder
	got := cost.Allocated(func() {
		d = fresh(&reading{rules: rules, unit: 1, budget: 1 << 30})
		if err := d.all(body.String()); err != nil {
			t.Fatal(err)
		}
	})
	if most := uint64(300 * lines); got > most {
		t.Errorf("%d bytes a line are allocated", got/lines)
	}
	for _, g := range d.parts()[0].Batch.Groups {
		for i, axis := range g.Axes {
			for row, v := range axis.Values {
				want := g.TimeNs[row] - 1
				if axis.Axis == "window" {
					want /= 100
				}
				if v != want {
					t.Fatalf("row %d, axis %d %s: %d, want %d", row, i, axis.Axis, v, want)
				}
			}
		}
	}
}

// A body of several parts is stored as a whole, or not at all.
func TestALargeBodyIsStoredInParts(t *testing.T) {
	lines := numbered(8*bodyLimit/3, "m,host=h f=%[1]d,g=\"a\nb %[1]d\" %[1]d\n")
	points := 2 * strings.Count(lines, "f=")
	in := &taker{}
	if w := write(receiver(t, in, bodyLimit), pack([]byte(lines)), true); w.Code != http.StatusNoContent || in.points != points || in.requests < 2 {
		t.Errorf("%d %s: %d points of %d in %d parts", w.Code, w.Body, in.points, points, in.requests)
	}
	in = &taker{}
	if w := write(receiver(t, in, bodyLimit), pack([]byte(lines+"m f=")), true); w.Code != http.StatusBadRequest || in.points != 0 || !strings.Contains(w.Body.String(), fmt.Sprintf("line %d", 2*points/2+1)) {
		t.Errorf("%d %s: %d points", w.Code, w.Body, in.points)
	}
}

func TestMoreThanARequestMayHave(t *testing.T) {
	for body, want := range map[string]string{
		strings.Repeat("m f=1\n", maxPoints+1):           "more than 1000000 points",
		numbered(14*(maxSeries+2), "m%d f=1\n"):          "more than 32000 series",
		numbered(20*(maxRuns+2), "m,run=run-%d f=1\n"):   "more than 1000 runs",
		"m" + numbered(7*maxTags, ",t%d=1"):              "more than 1024 tags",
		"m,t=" + strings.Repeat("x", maxKey):             "more than 65535 bytes",
		"m " + strings.Repeat("f=1,", maxFields) + "f=1": "more than 16384 fields",
	} {
		in := &taker{}
		w := write(receiver(t, in, 16<<20), []byte(body), false)
		if w.Code != http.StatusRequestEntityTooLarge && w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) || in.points != 0 {
			t.Errorf("%.40q: %d %s, %d points; want %s", body, w.Code, w.Body, in.points, want)
		}
	}
}

// A body takes no more than what it is counted for.
func TestCostOfABody(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	const most = 16 << 20
	for _, size := range []int{16 << 10, 64 << 10} {
		for name, plain := range hostile(size) {
			for _, sent := range [][]byte{[]byte(plain), pack([]byte(plain))} {
				r, packed := receiver(t, &taker{}, most), len(sent) != len(plain)
				counted := (&body{&r.bodies, bytes.NewBuffer(sent), packed}).cost()
				if peak := cost.Peak(uint64(counted), func() { write(r, sent, packed) }); peak > uint64(counted) {
					t.Errorf("%s, %d bytes, packed %v: %d bytes of memory, %d are counted", name, size, packed, peak, counted)
				}
			}
		}
	}
}

// Bodies that come slowly hold nothing that another caller's write needs.
func TestSlowBodiesHoldUpNobody(t *testing.T) {
	in := &taker{}
	r := receiver(t, in, 16<<20)
	as := func(caller string, body io.Reader) (q *http.Request) {
		ctx, cancel := context.WithTimeout(share.WithCaller(t.Context(), caller), time.Minute)
		t.Cleanup(cancel)
		return httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/v2/write?bucket=b", body)
	}
	var slow sync.WaitGroup
	defer slow.Wait()
	for range bodiesAtOnce {
		begun, client := io.Pipe()
		slow.Go(func() { r.write(httptest.NewRecorder(), as("slow", begun), version2) })
		if _, err := io.WriteString(client, "m f=1"); err != nil { // until it was read
			t.Fatal(err)
		}
		defer client.Close()
	}
	w := httptest.NewRecorder()
	if r.write(w, as("other", strings.NewReader("m f=1")), version2); w.Code != http.StatusNoContent || in.points != 1 {
		t.Errorf("beside slow bodies a write was answered with %d %s, %d points are stored", w.Code, w.Body, in.points)
	}
}

// What a decoder has learnt stays while it is of use, and goes when nobody sends the names
// again.
func TestNamesThatNobodySendsAgainAreForgotten(t *testing.T) {
	rules := defaultRules(t)
	request := func(d *decoder, run int) {
		var body strings.Builder
		fmt.Fprintf(&body, "m,run=r%d ", run)
		for i := range 1_000 {
			fmt.Fprintf(&body, "%cfield_%d=1", " ,"[min(i, 1)], i)
		}
		d.begin(&reading{rules: rules, unit: 1, budget: 64 << 20}, maxSeries)
		defer d.end()
		sent := []byte(body.String())
		if n, err := d.decode(sent, len(sent)); err != nil || n != len(sent) {
			t.Fatal(n, err)
		}
	}
	same, other := newDecoder(), newDecoder()
	for i := range 100 {
		request(same, i%10) // 3 MiB
		request(other, i)
	}
	if same.learnt < fewLearnt {
		t.Errorf("the names of ten runs that come again and again: %d bytes are known", same.learnt)
	}
	if other.learnt > 2*fewLearnt+mostVain*400<<10 {
		t.Errorf("the names of runs that come once: %d bytes are known", other.learnt)
	}
}
