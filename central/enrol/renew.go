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
	key, err := readCSR(r.CSR)
	if err != nil {
		return join.Grant{}, refuse(http.StatusBadRequest, "%v", err)
	}
	var m *store.Member
	err = a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if m, err = tx.Member(ctx, id); errors.Is(err, store.ErrNotFound) {
			return refuse(http.StatusForbidden, "there is no such member")
		} else if err != nil {
			return err
		}
		if !m.EndedAt.IsZero() {
			return refuse(http.StatusForbidden, "%s was revoked, or replaced, at %s", m.Scope, m.EndedAt.Format(time.RFC3339))
		}
		return tx.RenewMember(ctx, id, a.now().Add(memberLife))
	})
	if err != nil {
		return join.Grant{}, err
	}
	return a.grant(ctx, key, m)
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
