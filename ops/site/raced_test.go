//go:build race

package site

// raced reports whether the race detector watches.
const raced = true
