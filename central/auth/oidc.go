package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
)

// OIDCConfig is what OIDC needs. Issuer and Audience are required.
type OIDCConfig struct {
	// Issuer is the URL that tokens name as theirs, Audience what they must be made for.
	Issuer, Audience string
	// KeysURL is where the issuer publishes its keys; empty: what its discovery document says.
	KeysURL string
	Claims  Claims
	Client  *http.Client     // nil: one with a timeout of 10 s
	Now     func() time.Time // nil: time.Now
}

// OIDC authenticates by tokens that an OpenID Connect issuer has signed (JWT), in
// Authorization: Bearer, or in X-Auth-Token, as OpenStack's clients send what they take
// for a token of Keystone's.
type OIDC struct {
	cfg OIDCConfig

	mu   sync.Mutex
	keys oidc.KeySet // nil: not discovered yet
	// discovery is shared by the requests that come meanwhile: an issuer that does not
	// answer must not make them wait one after the other.
	discovery singleflight.Group
}

// algorithms are those by which a token may be signed: none with a shared secret.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// NewOIDC makes the strategy. The issuer is asked for its keys when the first token comes.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	if cfg.Issuer == "" || cfg.Audience == "" {
		return nil, errors.New("OIDC needs the issuer's URL and the audience that tokens are made for")
	}
	if err := cfg.Claims.check(); err != nil {
		return nil, err
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 10 * time.Second}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	o := &OIDC{cfg: cfg}
	if cfg.KeysURL != "" {
		o.keys = oidc.NewRemoteKeySet(o.background(), cfg.KeysURL)
	}
	return o, nil
}

// background is the context in which keys are fetched: for all requests, not for one.
func (o *OIDC) background() context.Context {
	return oidc.ClientContext(context.Background(), o.cfg.Client)
}

// Authenticate implements Strategy.
func (o *OIDC) Authenticate(r *http.Request) (*Caller, error) {
	token := o.token(r)
	if token == "" {
		return nil, ErrNone
	}
	keys, err := o.issuersKeys()
	if err != nil {
		return nil, o.unreachable(err)
	}
	checked := &signature{keys: keys}
	verifier := oidc.NewVerifier(o.cfg.Issuer, checked, &oidc.Config{ClientID: o.cfg.Audience, SupportedSigningAlgs: algorithms, Now: o.cfg.Now})
	verified, err := verifier.Verify(r.Context(), token)
	if _, away := errors.AsType[*url.Error](checked.err); away {
		return nil, o.unreachable(checked.err)
	}
	if err != nil {
		return nil, o.bad(err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return nil, o.bad(err)
	}
	caller, err := o.cfg.Claims.caller(verified.Subject, claims)
	if err != nil {
		return nil, o.bad(err)
	}
	return caller, nil
}

// token is the request's, empty for none. X-Auth-Token may hold another strategy's: only
// a token that names our issuer counts there.
func (o *OIDC) token(r *http.Request) string {
	kind, rest, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if strings.EqualFold(kind, "bearer") {
		return strings.TrimSpace(rest)
	}
	token := r.Header.Get("X-Auth-Token")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err != nil || json.Unmarshal(raw, &claims) != nil || claims.Issuer != o.cfg.Issuer {
		return ""
	}
	return token
}

func (o *OIDC) issuersKeys() (oidc.KeySet, error) {
	o.mu.Lock()
	keys := o.keys
	o.mu.Unlock()
	if keys != nil {
		return keys, nil
	}
	found, err, _ := o.discovery.Do("", func() (any, error) { return o.discover() })
	if err != nil {
		return nil, err
	}
	return found.(oidc.KeySet), nil
}

// discover asks the issuer where its keys are.
func (o *OIDC) discover() (oidc.KeySet, error) {
	provider, err := oidc.NewProvider(o.background(), o.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("read the discovery document of %s: %w", o.cfg.Issuer, err)
	}
	var doc struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&doc); err != nil || doc.KeysURL == "" {
		return nil, fmt.Errorf("the discovery document of %s names no keys", o.cfg.Issuer)
	}
	keys := oidc.NewRemoteKeySet(o.background(), doc.KeysURL)
	o.mu.Lock()
	o.keys = keys
	o.mu.Unlock()
	return keys, nil
}

// signature checks signatures and keeps why one could not be checked.
type signature struct {
	keys oidc.KeySet
	err  error
}

// VerifySignature implements oidc.KeySet.
func (s *signature) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, s.err = s.keys.VerifySignature(ctx, token)
	return payload, s.err
}

func (o *OIDC) bad(err error) *Denied {
	return &Denied{Message: "The token is not valid.", Title: "Unauthorized", Reason: "token of " + o.cfg.Issuer + ": " + err.Error()}
}

func (o *OIDC) unreachable(err error) *Denied {
	return &Denied{Status: http.StatusServiceUnavailable, Title: "Service Unavailable", Message: "The issuer of tokens cannot be reached to check yours.",
		Reason: "keys of " + o.cfg.Issuer + ": " + err.Error()}
}

// Missing implements Strategy.
func (o *OIDC) Missing() *Denied {
	return &Denied{Message: "The request you have made requires authentication.", Title: "Unauthorized", Reason: "no token"}
}

// Challenges implements Strategy.
func (o *OIDC) Challenges() []string { return []string{`Bearer realm="Baremetal API"`} }
