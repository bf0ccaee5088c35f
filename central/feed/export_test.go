package feed

import "context"

// Prune does what Run does every pruneEvery.
func (f *Feed) Prune(ctx context.Context) error { return f.prune(ctx) }

// Read does what Run does in each round for those who follow.
func (f *Feed) Read(ctx context.Context) error { return f.read(ctx) }
