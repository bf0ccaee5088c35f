package vbox

import (
	"bytes"
	"context"
	"encoding/xml"
	"net/http"
	"strings"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// session is a login at a web service. The holder of the host's turn uses it.
type session struct {
	wire *bmc.HTTP
	at   bmc.Web
	box  string // reference to IVirtualBox
}

// logon logs in.
func logon(ctx context.Context, at bmc.Web, o bmc.WebOptions) (*session, error) {
	wire, err := at.Open(o)
	if err != nil {
		return nil, err
	}
	s := &session{wire: wire, at: at}
	if err := s.login(ctx); err != nil {
		wire.Forget()
		return nil, err
	}
	return s, nil
}

func (s *session) login(ctx context.Context) (err error) {
	s.box, err = first(s.ask(ctx, "IWebsessionManager_logon", "username", s.at.User, "password", s.at.Password))
	if err == nil && s.box == "" {
		return &bmc.Failure{Said: "a login without a reference"}
	}
	return err
}

// Close implements bmc.Session: it logs off.
func (s *session) Close(ctx context.Context) {
	_, _ = s.ask(ctx, "IWebsessionManager_logoff", "refIVirtualBox", s.box)
	s.Drop()
}

// Drop implements bmc.Session.
func (s *session) Drop() { s.wire.Forget() }

// request is a call of a method; args are names and values in turn.
func (s *session) request(method string, args []string) bmc.Request {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:v="http://www.virtualbox.org/"><e:Body><v:` + method + `>`)
	for i := 0; i+1 < len(args); i += 2 {
		b.WriteString("<" + args[i] + ">")
		_ = xml.EscapeText(&b, []byte(args[i+1])) // a buffer takes everything
		b.WriteString("</" + args[i] + ">")
	}
	b.WriteString(`</v:` + method + `></e:Body></e:Envelope>`)
	return bmc.Request{Method: http.MethodPost, URL: s.at.URL("/"), Body: b.Bytes(), Header: http.Header{"Content-Type": {"text/xml; charset=utf-8"}, "Soapaction": {`""`}}}
}

// envelope is what of all answers is read.
type envelope struct {
	XMLName xml.Name
	Body    struct {
		Fault *struct {
			Text string `xml:"faultstring"`
		}
		Response *struct {
			XMLName xml.Name
			Values  []string `xml:"returnval"`
		} `xml:",any"`
	}
}

func sorted(method string, answer bmc.Answer, write bool) ([]string, error) {
	var e envelope
	readable := xml.Unmarshal(answer.Body, &e) == nil && e.XMLName.Local == "Envelope"
	switch {
	case readable && e.Body.Fault != nil:
		f := &bmc.Failure{Said: "the fault " + strings.TrimSpace(e.Body.Fault.Text)}
		lower := strings.ToLower(f.Said)
		switch {
		case method == "IWebsessionManager_logon":
			f.Class = bmc.Denied
			return nil, bmc.RefusedLogin(f)
		case strings.Contains(lower, "invalid managed object reference"):
			f.Class = bmc.Denied
			return nil, bmc.Forgotten(f)
		case strings.Contains(lower, "already locked"), strings.Contains(lower, "already has a lock"), strings.Contains(lower, "is locked"), strings.Contains(lower, "being unlocked"):
			f.Class = bmc.Busy
		}
		return nil, f
	case answer.Status != http.StatusOK:
		return nil, bmc.StatusFailure(answer.Status, write, http.StatusText(answer.Status), nil)
	case !readable || e.Body.Response == nil || e.Body.Response.XMLName.Local != method+"Response":
		f := &bmc.Failure{Said: "what is no answer of VirtualBox's web service; check " + fieldHost + " and " + fieldPort + ": " + string(answer.Body[:min(len(answer.Body), 100)])}
		if write {
			f.Class = bmc.Unknown
		}
		return nil, f
	}
	return e.Body.Response.Values, nil
}

// ask calls a method that changes no machine, once: it may log in, lock, or make an object at the web service.
func (s *session) ask(ctx context.Context, method string, args ...string) ([]string, error) {
	answer, err := s.wire.Ask(ctx, s.request(method, args))
	if err != nil {
		return nil, err
	}
	return sorted(method, answer, false)
}

// one calls a method that only reads one value.
func (s *session) one(ctx context.Context, method string, args ...string) (string, error) {
	answer, err := s.wire.Read(ctx, s.request(method, args))
	if err != nil {
		return "", err
	}
	return first(sorted(method, answer, false))
}

func first(values []string, err error) (string, error) {
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

// order calls a method that changes the machine, and returns its value, if it has one.
func (s *session) order(ctx context.Context, f driver.Fence, method string, args ...string) (string, error) {
	answer, err := s.wire.Order(ctx, f, s.request(method, args))
	if err != nil {
		return "", err
	}
	return first(sorted(method, answer, true))
}
