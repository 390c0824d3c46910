package metrics

import (
	"context"
	"time"
)

type contextKey struct{}

// NewContext is a context whose code publishes to the registry.
func NewContext(ctx context.Context, r *Registry) context.Context {
	return context.WithValue(ctx, contextKey{}, r)
}

// FromContext is the registry of a context; nil, which forgets metrics, when it
// has none.
func FromContext(ctx context.Context) *Registry {
	r, _ := ctx.Value(contextKey{}).(*Registry)
	return r
}

// PutMetric publishes a metric to the context's registry.
func PutMetric(ctx context.Context, name string, value float64, group ...string) {
	FromContext(ctx).PutMetric(name, value, group...)
}

// Profile calls do and publishes, as [Call.End] does, how long it took and
// whether it failed. Its error and a panic pass through.
func Profile(ctx context.Context, name string, do func(context.Context) error, group ...string) error {
	call, ok := Start(ctx, name, group...), false
	defer func() { call.publish(ok) }()
	err := do(ctx)
	ok = err == nil
	return err
}

// Call is a call that is being measured.
type Call struct {
	registry *Registry
	name     string
	groups   []string
	began    time.Time
}

// Start begins to measure a call. The name is the qualified one by custom, such
// as "Trainer.step", that of a plain function "package.function".
func Start(ctx context.Context, name string, group ...string) Call {
	r := FromContext(ctx)
	if r == nil {
		return Call{}
	}
	return Call{registry: r, name: name, groups: group, began: r.opts.Now()}
}

// End publishes four metrics: `<name>` and `<name>.duration.ms`, both the duration in
// milliseconds, `<name>.count`, which is 1, and `<name>.success`, which is 1 too. When
// *err is not nil or the function panics, the last one is `<name>.failure`. Defer it;
// err may be nil. A panic goes on.
func (c Call) End(err *error) {
	problem := recover()
	c.publish(problem == nil && (err == nil || *err == nil))
	if problem != nil {
		panic(problem)
	}
}

func (c Call) publish(ok bool) {
	if c.registry == nil {
		return
	}
	outcome := ".success"
	if !ok {
		outcome = ".failure"
	}
	ms := float64(c.registry.opts.Now().Sub(c.began)) / float64(time.Millisecond)
	c.registry.PutMetric(c.name, ms, c.groups...)
	c.registry.PutMetric(c.name+".duration.ms", ms, c.groups...)
	c.registry.PutMetric(c.name+".count", 1, c.groups...)
	c.registry.PutMetric(c.name+outcome, 1, c.groups...)
}
