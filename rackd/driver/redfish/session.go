package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// session is a client that is logged in to one BMC. The holder of the BMC's turn uses it.
type session struct {
	wire   *bmc.HTTP
	client *gofish.APIClient
	token  bool   // client uses a session, not a password with each request
	only   string // path of the BMC's only system, once known
}

// connect logs in. logins are those whose answers were lost.
func connect(ctx context.Context, a account, o Options, logins *lostLogins) (*session, error) {
	basic, err := logins.allow(a)
	if err != nil {
		return nil, err
	}
	config, err := a.trust(o).TLS()
	if err != nil {
		return nil, err
	}
	wire := bmc.NewHTTP(bmc.HTTPOptions{Host: a.endpoint[strings.Index(a.endpoint, "://")+3:], TLS: config,
		ConnectTimeout: o.ConnectTimeout, AnswerTimeout: cmp.Or(a.timeout, o.ReadTimeout), Networks: o.Networks, JSON: true})
	wire.BeginLogin(ctx)
	login, began := &watch{HTTP: wire}, time.Now()
	as := gofish.ClientConfig{
		Endpoint: a.endpoint, Username: a.user, Password: a.password, BasicAuth: basic || a.auth == "basic",
		HTTPClient: &http.Client{Transport: login, CheckRedirect: bmc.SameHost},
	}
	if o.Dialect.MayLack {
		if err := rootOf(ctx, wire, a); err != nil {
			wire.Forget()
			return nil, err
		}
	}
	// gofish's own context outlives the call; the transport uses the call's.
	client, err := gofish.ConnectContext(context.WithoutCancel(ctx), as)
	if err != nil && a.auth == "auto" && noSessions(err) && !refusedLogin(err) {
		as.BasicAuth = true
		client, err = gofish.ConnectContext(context.WithoutCancel(ctx), as)
	}
	answered := time.Now()
	if login.lost {
		logins.add(a.endpoint, lostLogin{began, answered})
	}
	if err != nil {
		wire.Forget()
		if refusedLogin(err) {
			return nil, bmc.RefusedLogin(err)
		}
		return nil, err
	}
	s := &session{wire: wire, client: client, token: a.user != "" && !as.BasicAuth}
	if lost := logins.of(a.endpoint); len(lost) > 0 && s.token {
		ended, done := reclaim(ctx, client, a, lost, began, answered)
		if done {
			logins.forget(a.endpoint)
		}
		o.Log.Info("looked for sessions that logins have left whose answers were lost", "bmc", a.endpoint, "logins", len(lost), "ended", ended, "known", done)
	}
	o.Log.Debug("connected to the BMC", "bmc", a.endpoint, "user", a.user, "session", s.token)
	return s, nil
}

// ErrNoService: what answers there has no Redfish service.
var ErrNoService = fmt.Errorf("it has no Redfish service: %w", driver.ErrUnsupported)

// rootOf asks for the service root, which needs no credentials.
func rootOf(ctx context.Context, wire *bmc.HTTP, a account) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.endpoint+"/redfish/v1/", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: wire, CheckRedirect: bmc.SameHost}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return ErrNoService
	}
	return nil
}

// noSessions: the BMC answered, and it opens no session, or no further one.
func noSessions(err error) bool {
	switch status(err) {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusInternalServerError,
		http.StatusNotImplemented, http.StatusServiceUnavailable:
		return true
	}
	// gofish's own words for a service root that links no session service.
	return strings.Contains(err.Error(), "no target provided")
}

// Close implements bmc.Session.
func (b *session) Close(ctx context.Context) {
	b.logout(ctx)
	b.Drop()
}

// logout tells the BMC that the session ends.
func (b *session) logout(ctx context.Context) {
	if s, err := b.client.GetSession(); err == nil && s.ID != "" {
		b.wire.BeginLogin(ctx)
		b.client.Logout()
	}
}

// id names the session at the BMC, empty without one.
func (b *session) id() string {
	if s, err := b.client.GetSession(); err == nil {
		return s.ID
	}
	return ""
}

// Drop implements bmc.Session.
func (b *session) Drop() { b.wire.Forget() }

// system reads the account's system.
func (b *session) system(c *gofish.APIClient, a account) (*System, error) {
	path := a.system
	if path == "" {
		path = b.only
	}
	if path == "" {
		paths, err := systemPaths(c)
		if err != nil {
			return nil, err
		}
		if len(paths) != 1 {
			return nil, fmt.Errorf("it has %d systems (%s): name one in driver_info %s: %w",
				len(paths), strings.Join(paths[:min(len(paths), 8)], ", "), a.names.System, driver.ErrInvalid)
		}
		path, b.only = paths[0], paths[0]
	}
	s, err := readSystem(c, path)
	if status(err) == http.StatusNotFound {
		if a.system == "" {
			b.only = ""
		}
		return nil, fmt.Errorf("it has no system %s: check driver_info %s: %w", path, a.names.System, driver.ErrInvalid)
	}
	return s, err
}

// systemPaths reads where the BMC's systems are. gofish would read every system,
// and its error would no longer tell a refusal from silence.
func systemPaths(c *gofish.APIClient) (paths []string, err error) {
	resp, err := c.Get("/redfish/v1/Systems")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var collection struct {
		Members []struct {
			Path string `json:"@odata.id"`
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&collection); err != nil {
		return nil, fmt.Errorf("its list of systems cannot be read: %w", err)
	}
	for _, m := range collection.Members {
		if strings.HasPrefix(m.Path, "/") {
			paths = append(paths, m.Path)
		}
	}
	return paths, nil
}
