package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/ironyard/ironyard/central/auth"
	"github.com/ironyard/ironyard/central/policy"
	"github.com/ironyard/ironyard/central/watched"
)

// Access says who may use the API, and for what.
type Access struct {
	// Strategies are asked in order who a request comes from: "noauth" (alone), "http_basic",
	// "oidc", "keystone". None: noauth.
	Strategies []string
	// Htpasswd is the file of users for http_basic.
	Htpasswd string
	OIDC     auth.OIDCConfig
	Keystone auth.KeystoneConfig
	// CAFile is a PEM file with the authorities that the issuer's and Keystone's certificates
	// are checked with; empty: the system's.
	CAFile string
	// PolicyFile replaces default rules; empty: none. ServiceProject is the name of the
	// project whose role "service" is one of the system; empty: none.
	PolicyFile, ServiceProject string
	// NoSelfService: projects' administrators may not enrol and delete nodes of their own.
	NoSelfService bool
	// Refresh is how often files, certificates too, are looked at for changes; 0: 5 s.
	Refresh time.Duration
}

// open reports whether everybody may do everything.
func (a *Access) open() bool {
	return len(a.Strategies) == 0 || slices.Contains(a.Strategies, "noauth")
}

// gate is what has become of an Access, and the files that it is to be kept in step with.
type gate struct {
	strategy auth.Strategy
	rules    func() *policy.Rules
	files    []watched.Refresher
}

func (a *Access) gate() (*gate, error) {
	if a.Refresh == 0 {
		a.Refresh = 5 * time.Second
	}
	g := &gate{}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	var chain auth.Chain
	for _, name := range a.Strategies {
		s, err := a.strategy(name, client, g)
		if err != nil {
			return nil, fmt.Errorf("--auth %s: %w", name, err)
		}
		chain = append(chain, s)
	}
	if g.strategy = chain; len(chain) == 0 {
		g.strategy = auth.NoAuth{}
	}
	defaults := policy.Default(a.ServiceProject)
	g.rules = func() *policy.Rules { return defaults }
	if a.PolicyFile != "" {
		file, err := watched.Open(func(texts [][]byte) (*policy.Rules, error) { return defaults.With(texts[0]) }, a.PolicyFile)
		if err != nil {
			return nil, fmt.Errorf("--policy: %w", err)
		}
		g.rules, g.files = file.Get, append(g.files, file)
	}
	return g, nil
}

func (a *Access) strategy(name string, client *http.Client, g *gate) (auth.Strategy, error) {
	switch name {
	case "noauth":
		if len(a.Strategies) > 1 {
			return nil, errors.New("it lets every caller in, so it cannot be combined with another strategy")
		}
		return auth.NoAuth{}, nil
	case "http_basic":
		if a.Htpasswd == "" {
			return nil, errors.New("it needs a file of users, as 'htpasswd -B' writes it: --htpasswd FILE")
		}
		users, err := watched.Open(func(texts [][]byte) (auth.Users, error) { return auth.ParseUsers(texts[0]) }, a.Htpasswd)
		if err != nil {
			return nil, err
		}
		g.files = append(g.files, users)
		return auth.NewBasic(users.Get), nil
	case "oidc":
		cfg := a.OIDC
		cfg.Client = client
		return auth.NewOIDC(cfg)
	case "keystone":
		cfg := a.Keystone
		cfg.Client = client
		return auth.NewKeystone(cfg)
	}
	return nil, errors.New("unknown strategy; known are noauth, http_basic, oidc and keystone")
}

// client reaches issuers of tokens.
func (a *Access) client() (*http.Client, error) {
	if a.CAFile == "" {
		return &http.Client{Timeout: 10 * time.Second}, nil
	}
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--auth-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--auth-ca %s: the file holds no PEM certificate", a.CAFile)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Timeout: 10 * time.Second, Transport: transport}, nil
}
