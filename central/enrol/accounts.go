package enrol

import (
	"context"
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/permit"
)

// A site has two NATS accounts.
//
// The site's own holds its streams; central and the link to the hub are in it.
// Everything on the site's bus, and nothing of another's, lies there.
//
// Its rackds are in a second one, which exists at the site's servers only and imports
// the subjects that rackds need. Permissions alone would not do: a server sends an
// answer wherever the question says, without asking whether the asker may publish
// there, so a rackd could have the bus write another group's keys for it, by naming
// one of them as the subject for the answer. Across accounts answers go back into the
// asker's, where no key lies.

// siteKeys is what lies in the vault for a site: seeds of its accounts, and what its
// servers show each other.
type siteKeys struct {
	Site            string `json:"site"`
	Racks           string `json:"racks"`
	ClusterPassword string `json:"cluster_password"`

	site, racks nkeys.KeyPair
}

func newSite() (any, error) {
	_, site, err := newPair(nkeys.CreateAccount)
	if err != nil {
		return nil, err
	}
	_, racks, err := newPair(nkeys.CreateAccount)
	return &siteKeys{Site: site, Racks: racks, ClusterPassword: join.NewSecret()}, err
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
	err := a.secret(ctx, siteSecret+name, k, newSite)
	if err == nil {
		k.site, err = nkeys.FromSeed([]byte(k.Site))
	}
	if err == nil {
		k.racks, err = nkeys.FromSeed([]byte(k.Racks))
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

// accounts are the JWTs of a site's two accounts, and of the first as the hub knows
// it: without what the second exchanges with it, for the hub does not know that.
type accounts struct{ site, racks, atHub string }

// accountsOf signs a site's accounts as they are now. They list the members whose
// credentials no longer count.
func (a *Authority) accountsOf(ctx context.Context, name string) (out accounts, err error) {
	k, err := a.site(ctx, name)
	if err != nil {
		return out, err
	}
	members, err := a.store.SiteMembers(ctx, name)
	if err != nil {
		return out, err
	}
	site, racks := jwt.NewAccountClaims(publicOf(k.site)), jwt.NewAccountClaims(publicOf(k.racks))
	site.Name, racks.Name = name, name+" rackds"
	site.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: unlimited, DiskStorage: unlimited, Streams: unlimited, Consumer: unlimited}
	a.revoke(site, members, join.Bus)
	a.revoke(racks, members, join.Rackd)
	if out.atHub, err = site.Encode(a.operator); err != nil {
		return out, err
	}
	for _, b := range permit.Borders() {
		from, to := site, racks
		if b.FromRackds {
			from, to = racks, site
		}
		kind := jwt.Stream
		if b.Service {
			kind = jwt.Service
		}
		from.Exports.Add(&jwt.Export{Name: b.Subject, Subject: jwt.Subject(b.Subject), Type: kind})
		to.Imports.Add(&jwt.Import{Name: b.Subject, Subject: jwt.Subject(b.Subject), Account: from.Subject, Type: kind})
	}
	if out.site, err = site.Encode(a.operator); err != nil {
		return out, err
	}
	out.racks, err = racks.Encode(a.operator)
	return out, err
}

// revoke lists the members of a role that were revoked while their credentials could
// still count.
func (a *Authority) revoke(c *jwt.AccountClaims, members []*store.Member, role join.Role) {
	for _, m := range members {
		if m.Scope.Role == role && !m.EndedAt.IsZero() && a.now().Before(m.ExpiresAt.Add(clockSkew)) {
			c.RevokeAt(m.UserKey, m.EndedAt)
		}
	}
}
