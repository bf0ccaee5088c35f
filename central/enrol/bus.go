package enrol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/ironyard/ironyard/protocol/permit"
	"github.com/ironyard/ironyard/protocol/trouble"
)

// BusOptions are what central connects to a site's account with, at the hub or at the
// site's own servers. Credentials are made anew for each connection.
func (a *Authority) BusOptions(ctx context.Context, site string) ([]nats.Option, error) {
	rules, err := permit.Central(site)
	if err != nil {
		return nil, err
	}
	k, err := a.site(ctx, site)
	if err != nil {
		return nil, err
	}
	return a.connection(k.site, rules)
}

// connection makes the options of a connection to an account.
func (a *Authority) connection(account nkeys.KeyPair, rules permit.Rules) ([]nats.Option, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	show := func() (string, error) {
		return user(account, publicOf(pair), "central", &rules, jwt.ConnectionTypeStandard, a.now().Add(centralLife))
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return []nats.Option{
		nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, GetClientCertificate: a.OwnCertificate().ForClient}),
		nats.UserJWT(show, pair.Sign),
		nats.CustomInboxPrefix(rules.Inbox),
		// A hub that does not know the site's account yet is told of it in a moment.
		nats.IgnoreAuthErrorAbort(),
	}, nil
}

// pushEvery is how often the hub is told of what has changed in the sites' accounts,
// besides each time that a site's server joins through this process.
const pushEvery = time.Minute

// claimsSubject takes an account's JWT.
const claimsSubject = "$SYS.REQ.CLAIMS.UPDATE"

// PushAccounts keeps the hub informed of the accounts of all sites until ctx ends: new
// sites, and members that have been revoked. options are added to the connection's.
func (a *Authority) PushAccounts(ctx context.Context, url string, log *slog.Logger, options ...nats.Option) error {
	own, err := a.connection(a.system, permit.Pusher())
	if err != nil {
		return err
	}
	back := make(chan struct{}, 1)
	wake := func(*nats.Conn) {
		select {
		case back <- struct{}{}:
		default:
		}
	}
	options = append(append(own, options...), nats.Name("central: accounts"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.ConnectHandler(wake), nats.ReconnectHandler(wake))
	conn, err := nats.Connect(url, options...)
	if err != nil {
		return fmt.Errorf("connect to the hub's system account: %w", err)
	}
	defer conn.Close()
	p := &pusher{a: a, conn: conn, log: log, told: map[string]string{}}
	var pushes trouble.Spells
	tick := time.NewTicker(pushEvery)
	defer tick.Stop()
	for {
		if conn.IsConnected() {
			if err := p.push(ctx); ctx.Err() == nil {
				pushes.Tried(log, "to tell the hub of the sites' accounts", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.joined:
		case <-back:
			clear(p.told) // another server, perhaps, or one that has forgotten
		}
	}
}

// pusher tells one hub.
type pusher struct {
	a    *Authority
	conn *nats.Conn
	log  *slog.Logger
	told map[string]string // what the hub was told last, by site
}

// push tells the hub what it has not been told.
func (p *pusher) push(ctx context.Context) error {
	names, err := p.a.siteNames(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, site := range names {
		text, err := p.a.accountsOf(ctx, site)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		what, err := substance(text.atHub)
		if err != nil || p.told[site] == what {
			errs = append(errs, err)
			continue
		}
		if err := p.tell(ctx, text.atHub); err != nil {
			errs = append(errs, fmt.Errorf("account of site %s: %w", site, err))
			continue
		}
		p.told[site] = what
	}
	return errors.Join(errs...)
}

func (p *pusher) tell(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	msg, err := p.conn.RequestWithContext(ctx, claimsSubject, []byte(text))
	if errors.Is(err, nats.ErrNoResponders) {
		// A site's own server, which central may be connected to where there is no hub,
		// learns of its account when it renews.
		p.log.Debug("the server keeps no accounts")
		return nil
	}
	if err != nil {
		return err
	}
	var reply struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		return fmt.Errorf("the hub's answer: %w", err)
	}
	if reply.Error != nil {
		return fmt.Errorf("the hub refuses it: %s", reply.Error.Description)
	}
	return nil
}

// substance is what an account says, without when and under which id.
func substance(text string) (string, error) {
	c, err := jwt.DecodeAccountClaims(text)
	if err != nil {
		return "", err
	}
	c.ID, c.IssuedAt = "", 0
	body, err := json.Marshal(c)
	return string(body), err
}

// siteNames returns the sites that somebody has asked about.
func (a *Authority) siteNames(ctx context.Context) ([]string, error) {
	var names []string
	for after := siteSecret; ; {
		page, err := a.store.Secrets(ctx, after, 256)
		if err != nil {
			return nil, err
		}
		for _, s := range page {
			name, of := strings.CutPrefix(s.Name, siteSecret)
			if !of {
				return names, nil
			}
			names = append(names, name)
			after = s.Name
		}
		if len(page) < 256 {
			return names, nil
		}
	}
}
