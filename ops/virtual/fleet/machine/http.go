package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// web is what firmware boots by HTTP.
type web struct {
	mu  sync.Mutex
	uri string // empty: the one that DHCP names
}

var _ vbmc.HTTPBooter = (*Machine)(nil)

// HTTPBootURI implements vbmc.HTTPBooter.
func (m *Machine) HTTPBootURI() (string, error) {
	if m.cfg.Web == nil {
		return "", fmt.Errorf("this machine loads nothing by HTTP: %w", errors.ErrUnsupported)
	}
	m.web.mu.Lock()
	defer m.web.mu.Unlock()
	return m.web.uri, nil
}

// SetHTTPBootURI implements vbmc.HTTPBooter.
func (m *Machine) SetHTTPBootURI(uri string) error {
	m.web.mu.Lock()
	defer m.web.mu.Unlock()
	m.web.uri = uri
	return nil
}

// bootHTTP starts the image at the URI, or what the network's boot program is told where DHCP names that. Firmware goes on with its boot
// order where the image does not load, as EDK II does.
func (m *Machine) bootHTTP(ctx context.Context) (end outcome, starts bool) {
	uri, err := m.HTTPBootURI()
	if err != nil || uri == "" {
		return m.bootNetwork(ctx), true
	}
	s, err := m.cfg.Web(ctx, uri)
	switch {
	case ctx.Err() != nil:
		return rests, true
	case err != nil:
		m.failed(ctx, err)
		return rests, false
	}
	if err := m.refuses(s.CommandLine); err != nil {
		m.failed(ctx, err)
		return rests, false
	}
	return m.bootKernel(ctx, s.Kernel, s.CommandLine), true
}
