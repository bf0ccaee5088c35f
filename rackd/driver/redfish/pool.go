package redfish

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// farewell bounds a log-out: a BMC that is gone must not hold up its successor.
const farewell = 10 * time.Second

var errClosed = errors.New("the redfish driver is closed")

// pool holds the BMCs talked to lately.
type pool struct {
	opts    Options
	ctx     context.Context // ends when close gives up waiting
	cancel  context.CancelFunc
	leaving sync.WaitGroup // log-outs under way

	mu     sync.Mutex
	closed bool
	bmcs   map[string]*bmc
}

func newPool(o Options) *pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &pool{opts: o, ctx: ctx, cancel: cancel, bmcs: map[string]*bmc{}}
}

// with runs do against the node's BMC and explains what went wrong. f is nil for
// calls that only read.
func (p *pool) with(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*bmc, account, *gofish.APIClient) error) error {
	a, err := parse(n)
	if err != nil {
		return err
	}
	b, err := p.acquire(a.key())
	if err == nil {
		defer p.release(b)
		if err = b.take(ctx); err == nil {
			defer b.give()
			err = b.run(ctx, a, f, func(c *gofish.APIClient) error { return do(b, a, c) })
		}
	}
	return explain(n, a, doing, f != nil, err)
}

func (p *pool) acquire(key string) (*bmc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	b := p.bmcs[key]
	if b == nil {
		if len(p.bmcs) >= p.opts.MaxBMCs {
			p.evict()
		}
		b = newBMC(p.opts)
		p.bmcs[key] = b
	}
	b.users++
	b.used = time.Now()
	return b, nil
}

func (p *pool) release(b *bmc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.users--
	b.used = time.Now()
}

// evict makes room: the idle BMC that was used longest ago leaves. When all are
// busy the pool grows past its bound until they are not.
func (p *pool) evict() {
	var oldest *bmc
	var at string
	for key, b := range p.bmcs {
		if b.users == 0 && (oldest == nil || b.used.Before(oldest.used)) {
			oldest, at = b, key
		}
	}
	if oldest == nil {
		return
	}
	delete(p.bmcs, at)
	p.leave(oldest)
}

// leave logs out in the background; close waits for it.
func (p *pool) leave(b *bmc) {
	p.leaving.Go(func() {
		if b.take(p.ctx) == nil {
			b.logout(p.ctx)
			b.give()
		}
	})
}

// close logs out of every BMC; those that take longer than ctx are left to their
// own session timeout.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for _, b := range p.bmcs {
		p.leave(b)
	}
	p.bmcs = map[string]*bmc{}
	p.mu.Unlock()
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	p.leaving.Wait()
	p.cancel()
	if err := ctx.Err(); err != nil {
		return errors.Join(errors.New("redfish: some sessions could not be closed in time; the BMCs end them by themselves"), err)
	}
	return nil
}
