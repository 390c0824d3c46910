package kymogram

import "context"

type contextKey struct{}

// NewContext hands a run to the functions that get ctx.
func NewContext(ctx context.Context, run *Run) context.Context {
	return context.WithValue(ctx, contextKey{}, run)
}

// FromContext is the run that [NewContext] put into ctx; false where there is none.
func FromContext(ctx context.Context) (*Run, bool) {
	run, ok := ctx.Value(contextKey{}).(*Run)
	return run, ok && run != nil
}
