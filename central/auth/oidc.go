package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
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
//
// A token that was good is remembered, with the key that has signed it, until it expires: as long as that key is
// one of the issuer's it is good without another check.
type OIDC struct {
	cfg  OIDCConfig
	keys *issuerKeys

	mu   sync.Mutex
	good *memory
}

// algorithms are those by which a token may be signed: none with a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// NewOIDC makes the strategy. The issuer is asked for its keys when the first token comes.
func NewOIDC(cfg OIDCConfig) (*OIDC, error) {
	if cfg.Issuer == "" || cfg.Audience == "" {
		return nil, errors.New("OIDC needs the issuer's URL (--oidc-issuer) and the audience of its tokens (--oidc-audience)")
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
	return &OIDC{cfg: cfg, keys: &issuerKeys{issuer: cfg.Issuer, url: cfg.KeysURL, client: cfg.Client}, good: newMemory()}, nil
}

// Authenticate implements Strategy.
func (o *OIDC) Authenticate(r *http.Request) (*Caller, error) {
	token := o.token(r)
	if token == "" {
		return nil, ErrNone
	}
	id := sha256.Sum256([]byte(token))
	if caller := o.recall(r.Context(), id); caller != nil {
		return caller, nil
	}
	ctx, leave, err := enter(r.Context())
	if err != nil {
		return nil, err
	}
	defer leave()
	return o.check(ctx, id, token)
}

// recall returns the caller of a token that was good and still is; nil: it has to be checked.
func (o *OIDC) recall(ctx context.Context, id [sha256.Size]byte) *Caller {
	o.mu.Lock()
	known, ok := o.good.recall(id, o.cfg.Now())
	o.mu.Unlock()
	if !ok || !holds(o.keys.current(ctx), known.signer) {
		return nil
	}
	return known.caller
}

// check finds out whose a token is, and remembers it.
func (o *OIDC) check(ctx context.Context, id [sha256.Size]byte, token string) (*Caller, error) {
	checked := &signature{keys: o.keys}
	verifier := oidc.NewVerifier(o.cfg.Issuer, checked, &oidc.Config{ClientID: o.cfg.Audience, SupportedSigningAlgs: algorithmNames(), Now: o.cfg.Now})
	verified, err := verifier.Verify(ctx, token)
	if away, ok := errors.AsType[unreachable](checked.err); ok {
		return nil, o.unreachable(away)
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
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good.keep(id, remembered{caller: caller, until: verified.Expiry, signer: checked.signer}, o.cfg.Now())
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

// signature checks signatures and keeps why one could not be checked.
type signature struct {
	keys   *issuerKeys
	signer jose.JSONWebKey
	err    error
}

// VerifySignature implements oidc.KeySet.
func (s *signature) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, s.signer, s.err = s.keys.verifySignature(ctx, token)
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
