package feed

import "context"

// Prune does what Run does every pruneEvery.
func (f *Feed) Prune(ctx context.Context) error { return f.prune(ctx) }
