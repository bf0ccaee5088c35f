package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// bmc is one BMC with at most one session. Whoever has taken turn owns all other
// fields.
type bmc struct {
	turn   chan struct{} // capacity 1: full while a call is under way
	opts   Options
	sum    [32]byte // of the account that client was opened with
	wire   *transport
	client *gofish.APIClient
	token  bool   // client uses a session, not a password with each request
	only   string // path of the BMC's only system, once known

	// Owned by the pool.
	used  time.Time
	users int
}

func newBMC(o Options) *bmc { return &bmc{turn: make(chan struct{}, 1), opts: o} }

// take waits for the BMC's turn.
func (b *bmc) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other calls to this BMC (%w): %w", context.Cause(ctx), driver.ErrUnreachable)
	}
}

func (b *bmc) give() { <-b.turn }

// run lets do talk to the BMC, logged in as a. A session that the BMC no longer
// knows is opened anew once and do is run again: it was refused, so nothing of it
// has happened unless do had written before, and every do reads first.
func (b *bmc) run(ctx context.Context, a account, f driver.Fence, do func(*gofish.APIClient) error) error {
	if err := b.connect(ctx, a); err != nil {
		return err
	}
	b.wire.current.Store(&call{ctx: ctx, fence: f})
	err := do(b.client)
	if status(err) != http.StatusUnauthorized || !b.token {
		return err
	}
	b.opts.Log.Info("the BMC has forgotten the session; logging in again", "bmc", a.endpoint)
	b.drop()
	if err := b.connect(ctx, a); err != nil {
		return err
	}
	b.wire.current.Store(&call{ctx: ctx, fence: f})
	return do(b.client)
}

// connect logs in unless that was done with the same account.
func (b *bmc) connect(ctx context.Context, a account) error {
	if b.client != nil && b.sum == a.sum() {
		return nil
	}
	b.logout(ctx)
	host := a.endpoint[strings.Index(a.endpoint, "://")+3:]
	wire, err := newTransport(a, host, b.opts)
	if err != nil {
		return err
	}
	wire.current.Store(&call{ctx: ctx, login: true})
	config := gofish.ClientConfig{
		Endpoint: a.endpoint, Username: a.user, Password: a.password, BasicAuth: a.auth == "basic",
		HTTPClient: &http.Client{Transport: wire, CheckRedirect: sameHost},
	}
	// gofish's own context outlives the call; the transport uses the call's.
	client, err := gofish.ConnectContext(context.WithoutCancel(ctx), config)
	if err != nil && a.auth == "auto" && noSessions(err) {
		config.BasicAuth = true
		client, err = gofish.ConnectContext(context.WithoutCancel(ctx), config)
	}
	if err != nil {
		wire.base.CloseIdleConnections()
		return err
	}
	b.sum, b.wire, b.client, b.token, b.only = a.sum(), wire, client, a.user != "" && !config.BasicAuth, ""
	b.opts.Log.Debug("connected to the BMC", "bmc", a.endpoint, "user", a.user, "session", b.token)
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

// logout ends the session, as far as ctx allows and no longer than farewell.
func (b *bmc) logout(ctx context.Context) {
	if b.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	if s, err := b.client.GetSession(); err == nil && s.ID != "" {
		b.wire.current.Store(&call{ctx: ctx, login: true})
		b.client.Logout()
	}
	b.drop()
}

// drop forgets the session without a word to the BMC.
func (b *bmc) drop() {
	b.wire.base.CloseIdleConnections()
	b.client, b.wire, b.only = nil, nil, ""
}

// system reads the account's system.
func (b *bmc) system(c *gofish.APIClient, a account) (*redfish.ComputerSystem, error) {
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
				len(paths), strings.Join(paths[:min(len(paths), 8)], ", "), fieldSystem, driver.ErrInvalid)
		}
		path, b.only = paths[0], paths[0]
	}
	s, err := redfish.GetComputerSystem(c, path)
	if status(err) == http.StatusNotFound {
		if a.system == "" {
			b.only = ""
		}
		return nil, fmt.Errorf("it has no system %s: check driver_info %s: %w", path, fieldSystem, driver.ErrInvalid)
	}
	if err == nil && s == nil {
		return nil, errors.New("it answered with an empty system")
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
