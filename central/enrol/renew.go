package enrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
)

// Renew gives a member a certificate and credentials that last longer, and what has
// changed since: accounts, servers, keys. The member signs its request with the key of
// its present certificate, so it works through proxies that end TLS, too.
//
// Only the newest certificate of a member renews, and the one before, for a member whose
// answer got lost. The one that a renewal shows is then the one before: of two that renew
// from copies of one folder, one comes with a certificate that is neither, and is told of.
func (a *Authority) Renew(ctx context.Context, r join.Renewal) (join.Grant, error) {
	c, err := a.verify(r.Certificate)
	if err != nil {
		return join.Grant{}, refuse(http.StatusForbidden, "the certificate does not count here (%v): join again with a new token", err)
	}
	id, ok := memberOf(c)
	if !ok {
		return join.Grant{}, refuse(http.StatusForbidden, "the certificate is no member's")
	}
	if signature, err := base64.StdEncoding.DecodeString(r.Signature); err != nil || !signed(c, r.Statement(), signature) {
		return join.Grant{}, refuse(http.StatusForbidden, "signature: it is not that of the certificate's key")
	}
	keys, err := readRequested(r.CSR, r.RouteCSR)
	if err != nil {
		return join.Grant{}, refuse(http.StatusBadRequest, "%v", err)
	}
	var m *store.Member
	var out issued
	err = a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if m, err = tx.Member(ctx, id); errors.Is(err, store.ErrNotFound) {
			return refuse(http.StatusForbidden, "there is no such member")
		} else if err != nil {
			return err
		}
		if !m.EndedAt.IsZero() {
			return refuse(http.StatusForbidden, "%s was revoked, or replaced, at %s", m.Scope, m.EndedAt.Format(time.RFC3339))
		}
		shown := join.Fingerprint(c)
		if !renews(m, c, shown) {
			return misuse(m, shown)
		}
		if !a.answers(r.Challenge, m) {
			return a.ask(m)
		}
		m.RenewedAt, m.CertificateBefore = a.now(), shown
		if out, err = a.certify(keys, m); err != nil {
			return err
		}
		return tx.RenewMember(ctx, m)
	})
	if err != nil {
		return join.Grant{}, err
	}
	return a.grant(ctx, out, m)
}

// unnamedFor bounds how much older than its newest a member's certificate may be where the
// row does not say which certificates the member has: that of a member that joined before
// central kept them, until its next renewal. A rackd renews daily.
const unnamedFor = 27 * time.Hour

// renews reports whether a certificate of the member, with that fingerprint, may renew.
func renews(m *store.Member, c *x509.Certificate, fingerprint string) bool {
	if m.Certificate == "" {
		return c.NotAfter.After(m.ExpiresAt.Add(-unnamedFor))
	}
	return fingerprint == m.Certificate || fingerprint == m.CertificateBefore
}

// misuse refuses a certificate that its member has left behind.
func misuse(m *store.Member, shown string) error {
	return &refusal{status: http.StatusForbidden, misused: m, text: "the certificate " + shown[:16] + "… of " + m.Scope.String() +
		" is neither its newest nor the one before: the folder was restored from a copy, or another machine has a copy of it. " +
		"Revoke the member, and join again with a new token"}
}

// signed reports whether a statement was signed by a certificate's key.
func signed(c *x509.Certificate, statement, signature []byte) bool {
	var algorithm x509.SignatureAlgorithm
	switch c.PublicKey.(type) {
	case *ecdsa.PublicKey:
		algorithm = x509.ECDSAWithSHA256
	case ed25519.PublicKey:
		algorithm = x509.PureEd25519
	case *rsa.PublicKey:
		algorithm = x509.SHA256WithRSA
	default:
		return false
	}
	return c.CheckSignature(algorithm, statement, signature) == nil
}
