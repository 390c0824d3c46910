package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
)

// The nodes that PromQL is asked about: a day of ten metrics, a sample each 30 s.
const (
	scraped     = 100
	scrapeMs    = 30_000
	scrapes     = 24 * 3_600_000 / scrapeMs
	perRequest  = 20 // scrapes
	promqlRange = "query_range"
	promqlNow   = "query"
)

func scrapedNames() []string {
	return []string{"loss", "tokens_per_second", "requests_total", "bytes_total", "gpu_temperature", "gpu_memory", "load", "learning_rate", "grad_norm", "queue"}
}

// scrape fills a body with the next samples of all series, oldest first, as Prometheus needs them.
func scrape(random *rand.Rand, level []float64, from, count int) []byte {
	var out, labels, samples []byte
	text := func(dst []byte, tag byte, s string) []byte { return append(append(dst, tag, byte(len(s))), s...) }
	label := func(name, value string) {
		labels = append(labels, 0x0a, byte(4+len(name)+len(value)))
		labels = text(text(labels, 0x0a, name), 0x12, value)
	}
	names := scrapedNames()
	for node := range scraped {
		for i, name := range names {
			labels, samples = labels[:0], samples[:0]
			label("__name__", name)
			label("instance", fmt.Sprintf("node-%d:9100", node))
			label("job", "train")
			for k := range count {
				v := &level[node*len(names)+i]
				switch i {
				case 2, 3:
					*v += math.Floor(random.Float64() * 1000)
				case 7:
					*v = 1e-4 * (1 + math.Cos(math.Pi*float64(from+k)/scrapes))
				default:
					*v *= 1 + 0.01*random.NormFloat64()
				}
				one := binary.LittleEndian.AppendUint64([]byte{0x09}, math.Float64bits(*v))
				one = binary.AppendUvarint(append(one, 0x10), uint64(firstMs+(from+k)*scrapeMs))
				samples = append(append(samples, 0x12, byte(len(one))), one...)
			}
			out = binary.AppendUvarint(append(out, 0x0a), uint64(len(labels)+len(samples)))
			out = append(append(out, labels...), samples...)
		}
	}
	return s2.EncodeSnappy(nil, out)
}

// promqlQueries are what Grafana's panels ask, each over a range in hours with its usual step in
// seconds; 0 hours is an instant.
type promqlQuery struct {
	text        string
	hours, step int
}

func promqlQueries() []promqlQuery {
	return []promqlQuery{
		{`load`, 1, 15},
		{`load{instance="node-7:9100"}`, 1, 15},
		{`loss{instance="node-7:9100"}`, 24, 120},
		{`loss`, 6, 60},
		{`{__name__=~"gpu_.*",instance="node-7:9100"}`, 6, 60},
		{`rate(requests_total[5m])`, 1, 15},
		{`sum(rate(requests_total[5m]))`, 6, 60},
		{`sum by (job) (rate(bytes_total[5m]))`, 24, 120},
		{`avg_over_time(loss[10m])`, 6, 60},
		{`max_over_time(gpu_temperature[1h])`, 24, 120},
		{`quantile_over_time(0.9, loss[10m])`, 6, 60},
		{`topk(10, loss)`, 6, 60},
		{`quantile(0.95, tokens_per_second)`, 6, 60},
		{`sum(loss / on (instance) grad_norm)`, 6, 60},
		{`count(loss > 1)`, 24, 120},
		{`max_over_time(rate(requests_total[5m])[30m:1m])`, 1, 15},
		{`deriv(gpu_memory[15m])`, 6, 60},
		{`topk(10, loss)`, 0, 0},
		{`sum(rate(requests_total[5m]))`, 0, 0},
		{`avg(avg_over_time(loss[1d]))`, 0, 0},
		{`sum_over_time(loss[1y:1s])`, 0, 0},
	}
}

// promqlRounds writes the same requests to all servers, starts them anew, and asks in turns.
func promqlRounds(ctx context.Context, o options, to io.Writer) error {
	names := strings.Split(o.servers, ",")
	var servers []server
	for _, name := range names {
		folder := filepath.Join(o.folder, "promql-"+name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		s := newServer(name, folder, o)
		if err := fillScrapes(ctx, s, o.seed); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer s.kill()
		servers = append(servers, s)
	}
	fmt.Fprintf(to, "%d series of %d samples; p50 ms, CPU ms, series\n", scraped*len(scrapedNames()), scrapes)
	fmt.Fprintln(to, "query | over | step | "+strings.Join(names, " | "))
	for _, q := range promqlQueries() {
		fmt.Fprintf(to, "%s | %d h | %d s", q.text, q.hours, q.step)
		for _, s := range servers {
			fmt.Fprint(to, " | ", q.measure(ctx, s, o.rounds))
		}
		fmt.Fprintln(to)
	}
	return nil
}

func fillScrapes(ctx context.Context, s server, seed uint64) (err error) {
	if err := s.boot(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.kill()
		}
	}()
	random, level := rand.New(rand.NewPCG(seed, 0)), make([]float64, scraped*len(scrapedNames()))
	for i := range level {
		level[i] = 1 + random.Float64()
	}
	for from := 0; from < scrapes; from += perRequest {
		if err := post(ctx, s.target(remoteProtocol), scrape(random, level, from, perRequest)); err != nil {
			return err
		}
	}
	if v, ok := s.(*victoria); ok {
		if err := v.settle(ctx); err != nil {
			return err
		}
	}
	if _, err := s.stop(); err != nil {
		return err
	}
	return s.boot(ctx)
}

// measure is the median time of a query, the CPU of the server for it, and how many series were
// answered; or what the server said instead.
func (q promqlQuery) measure(ctx context.Context, s server, rounds int) string {
	form, path := url.Values{"query": {q.text}, "nocache": {"1"}, "lookback_delta": {"5m"}, "timeout": {"30s"}}, promqlNow
	end := (firstMs + (scrapes-1)*scrapeMs) / 1000
	form.Set("time", strconv.Itoa(end))
	if q.hours > 0 {
		path = promqlRange
		end -= end % q.step
		form.Set("start", strconv.Itoa(end-q.hours*3600+q.step))
		form.Set("end", strconv.Itoa(end))
		form.Set("step", strconv.Itoa(q.step))
	}
	base, header := promqlBase(s)
	var took []float64
	var answer bytes.Buffer
	var before time.Duration
	times := 3 * rounds
	for i := range times + 1 {
		if i == 1 { // the first may read the disk
			before, _ = s.cpu()
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path+"?"+form.Encode(), http.NoBody)
		if err != nil {
			return err.Error()
		}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		answer.Reset()
		start := time.Now()
		if i == 0 {
			before, _ = s.cpu()
		}
		if err := read(r, &answer); err != nil {
			spent, _ := s.cpu()
			return fmt.Sprintf("%.60s… after %.0f ms, CPU %.0f ms", err, msOf(time.Since(start)), msOf(spent-before))
		}
		if i > 0 {
			took = append(took, msOf(time.Since(start)))
		}
	}
	after, _ := s.cpu()
	var found struct {
		Data struct{ Result []json.RawMessage }
	}
	_ = json.Unmarshal(answer.Bytes(), &found)
	return fmt.Sprintf("%.1f, %.0f, %d", median(took), msOf(after-before)/float64(times), len(found.Data.Result))
}

func msOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// promqlBase is where a server answers PromQL.
func promqlBase(s server) (base string, header map[string]string) {
	switch s := s.(type) {
	case *kymogram:
		return "http://" + s.address + "/prometheus/default/prometheus/api/v1/", s.authorization()
	case *victoria:
		return "http://" + s.address + "/api/v1/", nil
	case *prometheus:
		return "http://" + s.address + "/api/v1/", nil
	}
	return "", nil
}
