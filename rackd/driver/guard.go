package driver

import (
	"io"
	"net/http"
	"sync"
)

// Guard makes a request that changes something check the fence once more at the last
// moment: when its body is first read, which for HTTP/1.1 is after the connection has
// been made and before anything of the request is on it. A TLS handshake with a slow
// BMC takes seconds, in which the node may be lost.
//
// A request without a body, and one over HTTP/2, is as it was. refused returns what the
// fence said, nil while it has not refused; transports wrap errors in ways of their own.
func Guard(req *http.Request, f Fence) (refused func() error) {
	g := &guard{fence: f}
	if req.Body == nil || req.Body == http.NoBody {
		return g.refused
	}
	req.Body = &guarded{ReadCloser: req.Body, guard: g}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &guarded{ReadCloser: body, guard: g}, nil
		}
	}
	return g.refused
}

type guard struct {
	fence Fence
	mu    sync.Mutex
	err   error
}

func (g *guard) check() error {
	err := g.fence.Check()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	return err
}

func (g *guard) refused() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// guarded is a body that checks the fence before its first byte. A transport reads it
// from one goroutine.
type guarded struct {
	io.ReadCloser
	guard *guard
	begun bool
}

func (b *guarded) Read(p []byte) (int, error) {
	if !b.begun {
		if err := b.guard.check(); err != nil {
			return 0, err
		}
		b.begun = true
	}
	return b.ReadCloser.Read(p)
}
