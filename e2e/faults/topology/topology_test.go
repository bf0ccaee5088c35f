package topology

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestStarts(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skip("starts a whole fleet: run `make e2e`, or set IRONYARD_E2E=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p, err := Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("TOPOLOGY_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	top, err := New(Config{Programs: p, Dir: dir, Sites: []SiteConfig{
		{Name: "east", Groups: []GroupConfig{{Name: "alpha", Rackds: 3}}},
		{Name: "west", Groups: []GroupConfig{{Name: "beta", Rackds: 2}, {Name: "gamma", Rackds: 1}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	began := time.Now()
	if err := top.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %v", time.Since(began))
}
