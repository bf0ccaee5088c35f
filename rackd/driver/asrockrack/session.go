package asrockrack

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/providers/asrockrack"
	"github.com/go-logr/logr"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// writesFirmware is how long a BMC may take for one answer while it makes ready for firmware, takes it in or checks it. The mode for it
// alone takes a minute to begin.
const writesFirmware = 10 * time.Minute

// farewell bounds the log-out of a session that is not used.
const farewell = 10 * time.Second

// session is a login, with the provider that speaks in it. The holder of the BMC's turn uses it.
type session struct {
	api  *asrockrack.ASRockRack
	wire *wire
	at   bmc.Web
	// alone is until when the BMC is in its mode for firmware, in which it knows this session and no other one, and answers how far it is.
	alone time.Time
}

// escape makes a user or a password fit for the form that the provider fills in as it is.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// login opens a session. The provider takes the boards that it knows, and no others.
func login(ctx context.Context, at bmc.Web, o bmc.WebOptions) (*session, error) {
	w := &wire{hidden: []string{at.Password, escape(at.Password)}}
	var err error
	if w.quick, err = at.Open(o); err != nil {
		return nil, err
	}
	o.AnswerTimeout = max(o.AnswerTimeout, writesFirmware)
	if w.patient, err = at.Open(o); err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: w, Jar: jar, CheckRedirect: bmc.SameHost}
	s := &session{wire: w, at: at, api: asrockrack.NewWithOptions(at.Address(), escape(at.User), escape(at.Password), logr.Discard(), asrockrack.WithHTTPClient(client))}
	w.beginLogin(ctx)
	if err := s.let(s.api.Open(ctx)); err != nil {
		if w.letIn() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			s.Close(ctx)
		}
		s.Drop()
		return nil, err
	}
	return s, nil
}

// let judges a login, and the look at the board that follows it. The provider itself takes any answer but 401 for a session.
func (s *session) let(err error) error {
	if len(s.wire.seen) == 0 {
		return err
	}
	if first := s.wire.seen[0]; first.err == nil && first.status >= http.StatusBadRequest {
		f := bmc.StatusFailure(first.status, false, s.wire.shown(first.body), nil)
		if f.Class == bmc.Denied {
			return bmc.RefusedLogin(f)
		}
		return f
	} else if first.err == nil && len(s.wire.hidden) <= ownSecrets {
		return &bmc.Failure{Class: bmc.Unreachable, Said: "it answers the login without a token: " + s.wire.shown(first.body)}
	}
	if err != nil && strings.HasPrefix(err.Error(), "device model not supported") {
		return &bmc.Failure{Class: bmc.Unsupported, Said: fmt.Sprintf("that it is a board which bmclib does not know (%s): use another hardware type, such as ipmi or redfish", s.wire.clean(err.Error()))}
	}
	if s.wire.refused(http.StatusUnauthorized) { // it has restarted since, or takes in no more sessions
		return &bmc.Failure{Class: bmc.Unreachable, Said: "it takes the login, and does not know the session then"}
	}
	return s.wire.sorted(err)
}

// ownSecrets is how many secrets of a session are rackd's own: those that the BMC gave come behind them.
const ownSecrets = 2

// Close logs out.
func (s *session) Close(ctx context.Context) {
	s.wire.beginLogin(ctx)
	_ = s.api.Close(ctx)
	s.Drop()
}

// Drop implements bmc.Session.
func (s *session) Drop() { s.wire.forget() }
