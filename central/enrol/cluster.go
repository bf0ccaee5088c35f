package enrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// The servers of a site are a cluster, and those of the hub. They show each other a password,
// and each knows the keys of the others. Both change when a server is revoked or replaced.

// clusterSecret begins the vault's entries with passwords of clusters, by site; the hub's has
// no name. A cluster without one has the password that lies with its other keys.
const clusterSecret = "cluster/"

// clusterKeys is what lies in the vault for a cluster.
type clusterKeys struct {
	Password string `json:"password"`
	// Before is the one whose place it took, at Since.
	Before string    `json:"before,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Times of clusters.
const (
	// spread is how long after a change of password a server's renewal shows that it has the
	// new one: two of its renewals, so that the answer of the first may have been lost.
	spread = 150 * time.Minute
	// assemblyEvery is how often servers renew while some that their tokens name have not
	// joined, so that they learn of each other; assembly is how long after the newest has.
	assemblyEvery = time.Minute
	assembly      = 24 * time.Hour
)

// clusterTrust fills in what a server goes by in its cluster.
func (a *Authority) clusterTrust(ctx context.Context, g *join.Grant, m *store.Member, password string) error {
	k := clusterKeys{Password: password}
	if s, err := a.store.Secret(ctx, clusterSecret+m.Scope.Site); err == nil {
		if err := a.open(s, &k); err != nil {
			return err
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	members, err := a.living(ctx, m.Scope)
	if err != nil {
		return err
	}
	g.Trust.ClusterPassword = k.Password
	complete, newest := true, time.Time{}
	for _, other := range members {
		if other.RenewedAt.Before(k.Since.Add(spread)) {
			g.Trust.ClusterPasswordBefore = k.Before
		}
		complete = complete && other.RouteKey != ""
		g.Trust.RouteKeys = append(g.Trust.RouteKeys, other.RouteKey)
		if other.JoinedAt.After(newest) {
			newest = other.JoinedAt
		}
	}
	if !complete {
		g.Trust.RouteKeys = nil
	}
	slices.Sort(g.Trust.RouteKeys)
	if len(members) < len(m.Scope.Peers) && a.now().Before(newest.Add(assembly)) {
		g.RenewSeconds = int(assemblyEvery / time.Second)
	}
	return nil
}

// living are the servers of a server's cluster whose certificates count.
func (a *Authority) living(ctx context.Context, scope join.Scope) (list []*store.Member, err error) {
	members, err := a.store.SiteMembers(ctx, scope.Site)
	for _, m := range members {
		if m.Scope.Role == scope.Role && m.EndedAt.IsZero() && a.now().Before(m.ExpiresAt) {
			list = append(list, m)
		}
	}
	return list, err
}

// end ends a member. Its cluster, if it is a server, gets another password. If it is a rackd, the keys of
// all its groups are replaced, also of those that it stood in for.
func (a *Authority) end(ctx context.Context, tx *store.Tx, m *store.Member) error {
	if err := tx.EndMember(ctx, m.ID); err != nil {
		return err
	}
	if m.Scope.Role == join.Rackd {
		for _, group := range append([]string{m.Scope.Group}, m.Scope.FailoverOf...) {
			if err := groupkeys.Begin(ctx, tx, group, a.now()); err != nil {
				return err
			}
		}
		return nil
	}
	k := clusterKeys{Password: join.NewSecret(), Since: a.now()}
	name := clusterSecret + m.Scope.Site
	was, err := tx.Secret(ctx, name)
	switch {
	case err == nil:
		var before clusterKeys
		if err := a.open(was, &before); err != nil {
			return err
		}
		k.Before = before.Password
	case !errors.Is(err, store.ErrNotFound):
		return err
	default:
		if k.Before, err = a.firstPassword(ctx, tx, m.Scope); err != nil {
			return err
		}
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	sealed := a.seal.Seal(vaultLabel(name), string(text))
	if was == nil {
		return tx.InsertSecret(ctx, &store.Secret{Name: name, Value: sealed})
	}
	return tx.ReplaceSecret(ctx, was, sealed)
}

// firstPassword is that of a cluster whose password has never changed; empty if it has none.
func (a *Authority) firstPassword(ctx context.Context, tx *store.Tx, scope join.Scope) (string, error) {
	if scope.Role == join.Hub {
		return a.fleet.HubPassword, nil
	}
	s, err := tx.Secret(ctx, siteSecret+scope.Site)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	var k siteKeys
	if err == nil {
		err = a.open(s, &k)
	}
	return k.ClusterPassword, err
}

// open reads a secret of the vault into v.
func (a *Authority) open(s *store.Secret, v any) error {
	text, err := a.seal.Open(vaultLabel(s.Name), s.Value)
	if err == nil {
		err = json.Unmarshal([]byte(text), v)
	}
	if err != nil {
		return fmt.Errorf("entry %q of the vault: %w", s.Name, err)
	}
	return nil
}
