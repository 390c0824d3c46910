package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// requests counts what a node's own servers answer. Routes are patterns and
// method names, never paths.
type requests struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newRequests(r prometheus.Registerer) requests {
	q := requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kymogram_node_requests_total", Help: "Requests that were answered.",
		}, []string{"protocol", "route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kymogram_node_request_duration_seconds", Help: "Time to answer a request; a stream counts as one.", Buckets: durations(),
		}, []string{"protocol", "route"}),
	}
	r.MustRegister(q.total, q.duration)
	return q
}

type routeKey struct{}

// route is the pattern that net/http's ServeMux matched, known once it has.
func route(ctx context.Context) string {
	r, _ := ctx.Value(routeKey{}).(**http.Request)
	if r == nil || *r == nil || (*r).Pattern == "" {
		return "other"
	}
	return (*r).Pattern
}

// HTTP counts the requests that next answers, and how long it takes. The route is
// the pattern by which an http.ServeMux inside found its handler, else "other".
func (e *Endpoint) HTTP(next http.Handler) http.Handler {
	labels := prometheus.Labels{"protocol": "http"}
	inner := promhttp.InstrumentHandlerDuration(e.requests.duration.MustCurryWith(labels), next, promhttp.WithLabelFromCtx("route", route))
	counted := promhttp.InstrumentHandlerCounter(e.requests.total.MustCurryWith(labels), inner, promhttp.WithLabelFromCtx("route", route))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var held *http.Request
		r = r.WithContext(context.WithValue(r.Context(), routeKey{}, &held))
		held = r
		defer func() {
			if p := recover(); p != nil {
				e.requests.total.WithLabelValues("http", route(r.Context()), "500").Inc()
				panic(p)
			}
		}()
		counted.ServeHTTP(w, r)
	})
}

// errPanic is how a call ends that does not return.
var errPanic = status.Error(codes.Internal, "panic")

// Unary is an interceptor that counts a gRPC server's calls.
func (e *Endpoint) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	began, outcome := time.Now(), errPanic
	defer func() { e.requests.call(info.FullMethod, began, outcome) }()
	answer, err := handle(ctx, request)
	outcome = err
	return answer, err
}

// Stream is an interceptor that counts a gRPC server's streams.
func (e *Endpoint) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	began, outcome := time.Now(), errPanic
	defer func() { e.requests.call(info.FullMethod, began, outcome) }()
	outcome = handle(server, stream)
	return outcome
}

func (q *requests) call(method string, began time.Time, err error) {
	q.total.WithLabelValues("grpc", method, status.Code(err).String()).Inc()
	q.duration.WithLabelValues("grpc", method).Observe(time.Since(began).Seconds())
}
