package enrol

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/permit"
)

// siteKeys is what lies in the vault for a site: its NATS account's seed, and what its
// servers show each other.
type siteKeys struct {
	Account         string `json:"account"`
	ClusterPassword string `json:"cluster_password"`

	pair nkeys.KeyPair
}

// site returns a site's keys, making them the first time.
func (a *Authority) site(ctx context.Context, name string) (*siteKeys, error) {
	a.mu.Lock()
	known := a.sites[name]
	a.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if err := permit.CheckSite(name); err != nil {
		return nil, err
	}
	k := new(siteKeys)
	err := a.secret(ctx, siteSecret+name, k, func() (any, error) {
		_, seed, err := newPair(nkeys.CreateAccount)
		return &siteKeys{Account: seed, ClusterPassword: join.NewSecret()}, err
	})
	if err == nil {
		k.pair, err = nkeys.FromSeed([]byte(k.Account))
	}
	if err != nil {
		return nil, fmt.Errorf("keys of site %s: %w", name, err)
	}
	a.mu.Lock()
	a.sites[name] = k
	a.mu.Unlock()
	return k, nil
}

// unlimited in a NATS account.
const unlimited = -1

// AccountJWT is the NATS account of a site: everything on the site's bus, and nothing
// of another's, lies in it. It lists the members whose credentials no longer count.
func (a *Authority) AccountJWT(ctx context.Context, site string) (string, error) {
	k, err := a.site(ctx, site)
	if err != nil {
		return "", err
	}
	members, err := a.store.SiteMembers(ctx, site)
	if err != nil {
		return "", err
	}
	c := jwt.NewAccountClaims(publicOf(k.pair))
	c.Name = site
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: unlimited, DiskStorage: unlimited, Streams: unlimited, Consumer: unlimited}
	for _, m := range members {
		if !m.EndedAt.IsZero() && a.now().Before(m.ExpiresAt.Add(clockSkew)) {
			c.RevokeAt(m.UserKey, m.EndedAt)
		}
	}
	return c.Encode(a.operator)
}

// user signs the credentials of a user.
func user(account nkeys.KeyPair, public, name string, rules *permit.Rules, connection string, expires time.Time) (string, error) {
	u := jwt.NewUserClaims(public)
	u.Name = name
	u.Expires = expires.Unix()
	u.AllowedConnectionTypes = jwt.StringList{connection}
	if rules != nil {
		u.Pub.Allow = permit.Subjects(rules.Publish)
		u.Sub.Allow = permit.Subjects(rules.Subscribe)
		if rules.Answers {
			u.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 2 * ask.Timeout}
		}
	}
	return u.Encode(account)
}

// memberUser signs what a member shows on the bus; empty for a hub's server, which
// connects to nothing.
func (a *Authority) memberUser(ctx context.Context, public string, scope join.Scope, expires time.Time) (string, error) {
	if scope.Role == join.Hub {
		return "", nil
	}
	k, err := a.site(ctx, scope.Site)
	if err != nil {
		return "", err
	}
	if scope.Role == join.Bus {
		// The link carries the site's account and no other: inside it the site is at home.
		return user(k.pair, public, scope.Name, nil, jwt.ConnectionTypeLeafnode, expires)
	}
	rules, err := permit.Rackd(scope.Group, scope.Name, scope.FailoverOf...)
	if err != nil {
		return "", err
	}
	return user(k.pair, public, scope.Name, &rules, jwt.ConnectionTypeStandard, expires)
}
