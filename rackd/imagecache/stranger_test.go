package imagecache

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted makes images, and counts how many are made at once.
type counted struct{ now, most atomic.Int64 }

func (*counted) Way() string                                          { return "x" }
func (*counted) Need(context.Context, *os.File, int64) (int64, error) { return 10, nil }
func (m *counted) Make(_ context.Context, _, out *os.File, _ int64) error {
	n := m.now.Add(1)
	defer m.now.Add(-1)
	for had := m.most.Load(); n > had && !m.most.CompareAndSwap(had, n); had = m.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	_, err := out.WriteString("made")
	return err
}

// However many images tenants have converted at once, rackd's host works on a few.
func TestAFewImagesAreMadeAtOnce(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	m := &counted{}
	var entries []Entry
	for n := range 4 * mostMaking {
		body := strings.Repeat(fmt.Sprint(n), 100)
		o.images[fmt.Sprintf("/%d", n)] = body
		entries = append(entries, mustEnsure(t, c, Source{URL: fmt.Sprintf("%s/%d", o.URL, n), HashValue: sumOf(body)}))
	}
	var wg sync.WaitGroup
	for _, e := range entries {
		wg.Go(func() {
			if _, err := c.Derive(t.Context(), e, m); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := m.most.Load(); got == 0 || got > mostMaking {
		t.Errorf("%d were made at once", got)
	}
}

// Addresses that no caller asks for any more take no memory: who may deploy chooses them.
func TestAddressesAreForgotten(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	o.images["/kernel"] = "kernel"
	for n := range 50 {
		if _, err := c.Latest(t.Context(), fmt.Sprintf("%s/%s?n=%d", o.URL, map[bool]string{true: "kernel", false: "none"}[n%2 == 0], n)); (err == nil) != (n%2 == 0) {
			t.Fatal(err)
		}
	}
	if len(c.turns) != 0 {
		t.Errorf("%d addresses are kept", len(c.turns))
	}
}
