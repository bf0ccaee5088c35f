package enrol

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/join"
	"github.com/ironyard/ironyard/protocol/seal"
)

// fleetSecret is the vault's entry with the fleet's own keys; siteSecret begins those
// of sites.
const (
	fleetSecret = "fleet"
	siteSecret  = "site/"
)

// authorityLife is how long the fleet's root certificate is good for.
const authorityLife = 20 * 365 * 24 * time.Hour

// fleetKeys is what lies in the vault under fleetSecret.
type fleetKeys struct {
	Certificate string `json:"certificate"` // PEM
	Key         string `json:"key"`         // PEM
	// Operator and System are seeds of NATS keys, with their JWTs, which are kept so
	// that all servers are told the same.
	Operator    string `json:"operator"`
	OperatorJWT string `json:"operator_jwt"`
	System      string `json:"system"`
	SystemJWT   string `json:"system_jwt"`
	HubPassword string `json:"hub_password"`
}

// Authority signs for the fleet. It is safe for concurrent use.
type Authority struct {
	store *store.Store
	seal  *seal.Key
	now   func() time.Time

	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	operator    nkeys.KeyPair
	system      nkeys.KeyPair
	fleet       fleetKeys

	challengeKey []byte
	alarms       alarms

	mu    sync.Mutex
	sites map[string]*siteKeys
	// joined is woken when a site's server has joined: the hub must hear of its account.
	joined chan struct{}
}

// Open reads the authority's keys from the vault, making them the first time. now is
// nil for time.Now.
func Open(ctx context.Context, db *store.Store, key *seal.Key, now func() time.Time) (*Authority, error) {
	if now == nil {
		now = time.Now
	}
	a := &Authority{store: db, seal: key, now: now, sites: map[string]*siteKeys{}, joined: make(chan struct{}, 1),
		alarms: alarms{store: db, told: map[string]time.Time{}}}
	if err := a.secret(ctx, fleetSecret, &a.fleet, func() (any, error) { return newFleet(now()) }); err != nil {
		return nil, fmt.Errorf("keys of the fleet's authority: %w", err)
	}
	if err := a.parse(); err != nil {
		return nil, fmt.Errorf("keys of the fleet's authority: %w", err)
	}
	return a, nil
}

// secret reads a secret of the vault into v, making it with fresh when there is none.
func (a *Authority) secret(ctx context.Context, name string, v any, fresh func() (any, error)) error {
	s, err := a.store.Secret(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		made, err := fresh()
		if err != nil {
			return err
		}
		text, err := json.Marshal(made)
		if err != nil {
			return err
		}
		err = a.store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			return tx.InsertSecret(ctx, &store.Secret{Name: name, Value: a.seal.Seal(vaultLabel(name), string(text))})
		})
		if err != nil {
			return err
		}
		// Another replica may have been first.
		if s, err = a.store.Secret(ctx, name); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return a.open(s, v)
}

// vaultLabel is the label of a secret: one that is copied to another name does not open.
func vaultLabel(name string) seal.Label { return seal.Label{Kind: seal.Vault, Of: name} }

func (a *Authority) parse() (err error) {
	block, _ := pem.Decode([]byte(a.fleet.Certificate))
	secret, _ := pem.Decode([]byte(a.fleet.Key))
	if block == nil || secret == nil {
		return errors.New("no PEM")
	}
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		return err
	}
	key, err := x509.ParsePKCS8PrivateKey(secret.Bytes)
	if err != nil {
		return err
	}
	var ok bool
	if a.key, ok = key.(*ecdsa.PrivateKey); !ok {
		return fmt.Errorf("the key is a %T", key)
	}
	if a.operator, err = nkeys.FromSeed([]byte(a.fleet.Operator)); err != nil {
		return err
	}
	if a.system, err = nkeys.FromSeed([]byte(a.fleet.System)); err != nil {
		return err
	}
	a.challengeKey, err = a.newChallengeKey()
	return err
}

// newFleet makes the keys of a new fleet.
func newFleet(now time.Time) (any, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: "Ironyard fleet authority"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	f := &fleetKeys{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		Key:         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		HubPassword: join.NewSecret(),
	}
	operator, seed, err := newPair(nkeys.CreateOperator)
	if err != nil {
		return nil, err
	}
	f.Operator = seed
	system, seed, err := newPair(nkeys.CreateAccount)
	if err != nil {
		return nil, err
	}
	f.System = seed
	account := jwt.NewAccountClaims(publicOf(system))
	account.Name = "SYS"
	if f.SystemJWT, err = account.Encode(operator); err != nil {
		return nil, err
	}
	claims := jwt.NewOperatorClaims(publicOf(operator))
	claims.Name = "ironyard"
	claims.SystemAccount = publicOf(system)
	f.OperatorJWT, err = claims.Encode(operator)
	return f, err
}

// newPair makes a NATS key and returns its seed too.
func newPair(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, error) {
	pair, err := create()
	if err != nil {
		return nil, "", err
	}
	seed, err := pair.Seed()
	return pair, string(seed), err
}

// publicOf returns the public half of a key that holds its private one.
func publicOf(pair nkeys.KeyPair) string {
	public, err := pair.PublicKey()
	if err != nil {
		panic(err) // only a wiped pair fails
	}
	return public
}

// Certificate is the fleet's root.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }
