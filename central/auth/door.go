package auth

import "context"

// Door stands before checks that cost time or a question to another server: of a password, or of a token that is
// not remembered as good. Until such a check has ended the caller is a stranger, whose share is bounded.
type Door interface {
	// Enter lets one check begin, in a context that bounds it; leave is called at its end. An error is a *Denied: as many
	// as may be are under way.
	Enter() (ctx context.Context, leave func(), err error)
}

type doorKey struct{}

// WithDoor puts a door before the checks of requests with that context.
func WithDoor(ctx context.Context, d Door) context.Context {
	return context.WithValue(ctx, doorKey{}, d)
}

// enter goes through the context's door, where there is one.
func enter(ctx context.Context) (inside context.Context, leave func(), err error) {
	if d, ok := ctx.Value(doorKey{}).(Door); ok {
		return d.Enter()
	}
	return ctx, func() {}, nil
}
