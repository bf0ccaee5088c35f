package cisco

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// Fields are the names of the fields of driver_info that a driver of this API has.
type Fields struct {
	bmc.Fields
	Port string
}

// Properties describes the fields; manager is what stands at the address.
func (f Fields) Properties(manager string) map[string]string {
	return map[string]string{
		f.Address:  "Host name or address of the " + manager + ". Required.",
		f.User:     "User of the " + manager + ", who may operate servers. Required.",
		f.Password: "Password of that user. Required.",
		f.Port:     "TCP port of the " + manager + ". Default 443.",
		f.VerifyCA: "How to check the certificate: true (the system's authorities), false (not at all), pin (the key that it shows first, and no other), PEM itself, or the name of a PEM file below the folder that rackd --ca-dir names. Default true.",
	}
}

// Parse reads driver_info. more are further fields that are required. Errors wrap driver.ErrInvalid, with Ironic's words
// where it has some.
func (f Fields) Parse(n *node.Document, more ...string) (w bmc.Web, err error) {
	refuse := func(err error) (bmc.Web, error) { return bmc.Web{}, fmt.Errorf("node %s: %w", n.Label(), err) }
	if missing := bmc.Missing(n, append([]string{f.Address, f.User, f.Password}, more...)...); missing != "" {
		return refuse(driver.Refuse("%s driver requires these parameters to be set in the node's driver_info.. Missing are: %s", n.Driver, missing))
	}
	w = bmc.Web{Node: n, Scheme: "https", User: n.DriverString(f.User), Password: n.DriverString(f.Password), VerifyCA: bmc.VerifyCA(n.DriverString(f.VerifyCA)), Fields: f.Fields}
	if w.Host, err = bmc.Host(n, f.Address, f.Port); err != nil {
		return refuse(err)
	}
	if w.Port, err = bmc.Port(n, f.Port, "443"); err != nil {
		return refuse(err)
	}
	return w, nil
}

// Session is a login. The holder of the manager's turn uses it.
type Session struct {
	wire   *bmc.HTTP
	at     bmc.Web
	cookie string
	// period is how long a cookie lasts that is not refreshed; since is when it was last.
	period time.Duration
	since  time.Time
}

// Login opens a session.
func Login(ctx context.Context, at bmc.Web, o bmc.WebOptions) (*Session, error) {
	wire, err := at.Open(o)
	if err != nil {
		return nil, err
	}
	s := &Session{wire: wire, at: at}
	if err := s.login(ctx); err != nil {
		wire.Forget()
		return nil, err
	}
	return s, nil
}

func (s *Session) login(ctx context.Context) error {
	answer, err := s.once(ctx, New("aaaLogin", "inName", s.at.User, "inPassword", s.at.Password))
	if err != nil {
		return err
	}
	return s.keep(answer)
}

// keep takes the cookie of an answer.
func (s *Session) keep(answer Object) error {
	cookie := answer.Get("outCookie")
	if cookie == "" {
		return &bmc.Failure{Said: "a login without a cookie"}
	}
	seconds, _ := strconv.Atoi(answer.Get("outRefreshPeriod"))
	s.cookie, s.period, s.since = cookie, time.Duration(seconds)*time.Second, time.Now()
	return nil
}

// Close logs out.
func (s *Session) Close(ctx context.Context) {
	_, _ = s.once(ctx, New("aaaLogout", "inCookie", s.cookie))
	s.Drop()
}

// Drop implements bmc.Session.
func (s *Session) Drop() { s.wire.Forget() }

// fresh refreshes a cookie whose time is half over, so that no session ends unseen and stays behind.
func (s *Session) fresh(ctx context.Context) error {
	if s.period <= 0 || time.Since(s.since) < s.period/2 {
		return nil
	}
	answer, err := s.once(ctx, New("aaaRefresh", "inName", s.at.User, "inPassword", s.at.Password, "inCookie", s.cookie))
	if err != nil {
		return err
	}
	return s.keep(answer)
}

// Resolve reads the object of that name, with all below it if deep. There may be none.
func (s *Session) Resolve(ctx context.Context, dn string, deep bool) (o Object, found bool, err error) {
	if err := s.fresh(ctx); err != nil {
		return o, false, err
	}
	answer, err := s.ask(ctx, New("configResolveDn", "cookie", s.cookie, "inHierarchical", strconv.FormatBool(deep), "dn", dn))
	if err != nil {
		return o, false, err
	}
	out, _ := answer.Child("outConfig")
	if len(out.Children) == 0 {
		return o, false, nil
	}
	return out.Children[0], true, nil
}

// Children reads the children of a class that an object has.
func (s *Session) Children(ctx context.Context, dn, class string) ([]Object, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	answer, err := s.ask(ctx, New("configResolveChildren", "cookie", s.cookie, "inDn", dn, "inHierarchical", "false", "classId", class))
	if err != nil {
		return nil, err
	}
	out, _ := answer.Child("outConfigs")
	return out.Children, nil
}

// Configure writes an object, which has its dn, with what stands below it.
func (s *Session) Configure(ctx context.Context, f driver.Fence, o Object) error {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	request, err := s.request(New("configConfMo", "cookie", s.cookie, "dn", o.Get("dn"), "inHierarchical", "true").With(New("inConfig").With(o)))
	if err != nil {
		return err
	}
	answer, err := s.wire.Order(ctx, f, request)
	if err != nil {
		return err
	}
	_, err = s.read(answer, true)
	return err
}

func (s *Session) request(method Object) (bmc.Request, error) {
	body, err := xml.Marshal(method)
	return bmc.Request{Method: http.MethodPost, URL: s.at.URL("/nuova"), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: body}, err
}

// ask sends a method that only reads.
func (s *Session) ask(ctx context.Context, method Object) (Object, error) {
	return s.answered(ctx, method, s.wire.Read)
}

// once sends a method about the session: the manager counts sessions, and wrong passwords, so it is never sent again.
func (s *Session) once(ctx context.Context, method Object) (Object, error) {
	return s.answered(ctx, method, s.wire.Ask)
}

func (s *Session) answered(ctx context.Context, method Object, send func(context.Context, bmc.Request) (bmc.Answer, error)) (Object, error) {
	request, err := s.request(method)
	if err != nil {
		return Object{}, err
	}
	answer, err := send(ctx, request)
	if err != nil {
		return Object{}, err
	}
	return s.read(answer, false)
}

// shownPage is how much of a page that is no XML an error shows, in bytes.
const shownPage = 100

// read reads an answer's body. What it says may repeat the request, whose cookie is as good as the password while it lasts.
func (s *Session) read(answer bmc.Answer, write bool) (Object, error) {
	if answer.Status != http.StatusOK {
		return Object{}, bmc.StatusFailure(answer.Status, write, http.StatusText(answer.Status), nil)
	}
	var o Object
	err := bmc.CheckXML(answer.Body)
	if err == nil {
		err = xml.Unmarshal(answer.Body, &o)
	}
	if err != nil {
		class := bmc.Refused
		if write {
			class = bmc.Unknown
		}
		page := s.clean(string(answer.Body)) // before it is cut: half a cookie is not found
		return Object{}, &bmc.Failure{Class: class, Said: fmt.Sprintf("what is no XML of this API (%s); check the address: %.*s", s.clean(err.Error()), shownPage, page)}
	}
	err = failure(o)
	if f, is := errors.AsType[*bmc.Failure](err); is {
		f.Said = s.clean(f.Said)
	}
	return o, err
}

// clean takes the session's secrets out of what a manager says.
func (s *Session) clean(said string) string { return bmc.Clean(said, s.cookie, s.at.Password) }
