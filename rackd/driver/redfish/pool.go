package redfish

import (
	"context"
	"net/http"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// pool holds the sessions on the BMCs talked to lately.
type pool struct {
	opts Options
	*bmc.Pool[*session]
	logins lostLogins
}

// with runs do against the node's BMC and explains what went wrong. f is nil for
// calls that only read.
func (p *pool) with(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(*session, account, *gofish.APIClient) error) error {
	a, err := p.opts.Dialect.parse(n)
	if err != nil {
		return err
	}
	err = p.Use(ctx, a.trust(p.opts).Account(a.sum()),
		func(ctx context.Context) (*session, error) { return connect(ctx, a, p.opts, &p.logins) },
		func(s *session) error {
			s.wire.Begin(ctx, f)
			err := do(s, a, s.client)
			switch {
			case status(err) != http.StatusUnauthorized:
				return err
			case s.token:
				// A BMC that refuses one request so may know the session all the same. Each would cost it a slot.
				s.logout(ctx)
				return bmc.Forgotten(err)
			case a.user != "":
				return bmc.RefusedLogin(err)
			}
			return err
		})
	return explain(n, a, doing, f != nil, err)
}
