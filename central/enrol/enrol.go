package enrol

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/central/groupkeys"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Enrol lets the bearer of a token join.
func (a *Authority) Enrol(ctx context.Context, r join.Request) (join.Grant, error) {
	keys, err := readRequested(r.CSR, r.RouteCSR)
	if err != nil {
		return join.Grant{}, refuse(http.StatusBadRequest, "%v", err)
	}
	if !nkeys.IsValidPublicUserKey(r.UserKey) {
		return join.Grant{}, refuse(http.StatusBadRequest, "user_key: want the public half of a NATS user key")
	}
	usedKey, err := nameOfKeys(keys, r.UserKey)
	if err != nil {
		return join.Grant{}, err
	}
	var m *store.Member
	var signed issued
	err = a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		m, signed, err = a.admit(ctx, tx, r, keys, usedKey)
		return err
	})
	if err != nil {
		return join.Grant{}, err
	}
	return a.grant(ctx, signed, m)
}

// nameOfKeys stands for a joiner's keys.
func nameOfKeys(keys requested, userKey string) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(keys.own)
	if err != nil {
		return "", err
	}
	text := append(der, userKey...)
	if keys.route != nil {
		if der, err = x509.MarshalPKIXPublicKey(keys.route); err != nil {
			return "", err
		}
		text = append(text, der...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// admit uses the token up and makes the member, or finds the one that it made with
// the same keys before.
func (a *Authority) admit(ctx context.Context, tx *store.Tx, r join.Request, keys requested, usedKey string) (m *store.Member, signed issued, err error) {
	t, err := tx.JoinToken(ctx, r.Token)
	if errors.Is(err, store.ErrNotFound) || err == nil && !fits(r.Secret, t.SecretHash) {
		return nil, signed, refuse(http.StatusForbidden, "there is no such token")
	}
	if err != nil {
		return nil, signed, err
	}
	// From here on the joiner has shown the secret, and may be told more.
	now := a.now()
	switch {
	case !t.RevokedAt.IsZero():
		return nil, signed, refuse(http.StatusForbidden, "the token was revoked at %s: ask for a new one", t.RevokedAt.Format(time.RFC3339))
	case !t.UsedAt.IsZero() && t.UsedKey != usedKey:
		return nil, signed, refuse(http.StatusForbidden, "the token was used at %s, with other keys: ask for a new one; if it was not you, revoke member %s",
			t.UsedAt.Format(time.RFC3339), t.Member)
	case !now.Before(t.ExpiresAt):
		return nil, signed, refuse(http.StatusForbidden, "the token expired at %s: ask for a new one", t.ExpiresAt.Format(time.RFC3339))
	case !t.UsedAt.IsZero():
		switch m, err = tx.Member(ctx, t.Member); {
		case err != nil:
			return nil, signed, err
		case !m.EndedAt.IsZero():
			return nil, signed, refuse(http.StatusForbidden, "%s was revoked at %s", m.Scope, m.EndedAt.Format(time.RFC3339))
		case m.RenewedAt.After(m.JoinedAt):
			// Its answer arrived: this is a request that somebody has recorded.
			return nil, signed, refuse(http.StatusForbidden, "the token was used at %s, and %s has renewed since: ask for a new one", t.UsedAt.Format(time.RFC3339), m.Scope)
		}
		m.CertificateBefore = m.Certificate
		if signed, err = a.certify(keys, m); err == nil {
			err = tx.RenewMember(ctx, m)
		}
		return m, signed, err
	}
	m = &store.Member{Scope: t.Scope, UserKey: r.UserKey, JoinedAt: now, RenewedAt: now, ExpiresAt: now.Add(memberLife)}
	if m.Scope.Name == "" {
		// Lower case, as the names of leases are: two that differ in case are one.
		m.Scope.Name = strings.ToLower(r.Name)
	}
	if err := m.Scope.Check(true); err != nil {
		return nil, signed, refuse(http.StatusBadRequest, "%v", err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, signed, err
	}
	m.ID = id.String()
	switch old, err := tx.MemberNamed(ctx, m.Scope.Role, m.Scope.Name); {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, signed, err
	case t.Scope.Name == "":
		return nil, signed, refuse(http.StatusConflict, "%s has joined already; to replace it, ask for a token that names it", old.Scope)
	default:
		if err := a.end(ctx, tx, old); err != nil {
			return nil, signed, err
		}
	}
	if signed, err = a.certify(keys, m); err != nil {
		return nil, signed, err
	}
	if err := tx.InsertMember(ctx, m); err != nil {
		return nil, signed, err
	}
	return m, signed, tx.UseJoinToken(ctx, t.ID, usedKey, m.ID)
}

// grant puts together what the member needs.
func (a *Authority) grant(ctx context.Context, signed issued, m *store.Member) (join.Grant, error) {
	g := join.Grant{Member: m.ID, Scope: m.Scope, Certificate: signed.certificate, RouteCertificate: signed.route, Expires: signed.expires,
		Authority: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))}
	var err error
	if g.UserJWT, err = a.memberUser(ctx, m.UserKey, m.Scope, g.Expires); err != nil {
		return g, err
	}
	if g.Hubs, err = a.servers(ctx, ""); err != nil {
		return g, err
	}
	if m.Scope.Role != join.Hub {
		if g.Servers, err = a.servers(ctx, m.Scope.Site); err != nil {
			return g, err
		}
	}
	switch m.Scope.Role {
	case join.Rackd:
		g.Keys, err = a.keys(ctx, m.Scope)
	case join.Bus:
		var k *siteKeys
		if k, err = a.site(ctx, m.Scope.Site); err != nil {
			return g, err
		}
		g.Trust = &join.Trust{Operator: a.fleet.OperatorJWT, System: a.fleet.SystemJWT}
		if err = a.clusterTrust(ctx, &g, m, k.ClusterPassword); err != nil {
			return g, err
		}
		var both accounts
		if both, err = a.accountsOf(ctx, m.Scope.Site); err != nil {
			return g, err
		}
		g.Trust.Site, g.Trust.Rackds = both.site, both.racks
		select {
		case a.joined <- struct{}{}:
		default:
		}
	case join.Hub:
		g.Trust = &join.Trust{Operator: a.fleet.OperatorJWT, System: a.fleet.SystemJWT}
		err = a.clusterTrust(ctx, &g, m, a.fleet.HubPassword)
	}
	return g, err
}

// servers returns the addresses of a site's NATS servers, of the hub's for site "", and those
// that their tokens name besides: but not where only a server lives that has been revoked.
func (a *Authority) servers(ctx context.Context, site string) ([]string, error) {
	members, err := a.store.SiteMembers(ctx, site)
	if err != nil {
		return nil, err
	}
	var own, peers, gone []string
	for _, m := range members {
		switch {
		case m.Scope.Address == "":
		case m.EndedAt.IsZero():
			own, peers = append(own, m.Scope.Address), append(peers, m.Scope.Peers...)
		default:
			gone = append(gone, m.Scope.Address)
		}
	}
	list := append(own, slices.DeleteFunc(peers, func(p string) bool { return slices.Contains(gone, p) })...)
	slices.Sort(list)
	return slices.Compact(list), nil
}

// keys is a rackd's key file: of each of its groups the generations that count now.
func (a *Authority) keys(ctx context.Context, scope join.Scope) (string, error) {
	own, err := a.groupKey(ctx, scope.Group)
	if err != nil {
		return "", err
	}
	ring := seal.NewKeyring(scope.Group, own)
	for _, g := range scope.FailoverOf {
		key, err := a.groupKey(ctx, g)
		if err != nil {
			return "", err
		}
		ring = ring.With(g, key)
	}
	return ring.Text(scope.Group), nil
}

// groupKey is a group's key as the database says at this moment: a rackd that is told to renew must not
// be given what counted before.
func (a *Authority) groupKey(ctx context.Context, group string) (*seal.Key, error) {
	g, err := a.store.GroupKey(ctx, group)
	if err != nil {
		return nil, err
	}
	return groupkeys.Derive(a.seal, g)
}
