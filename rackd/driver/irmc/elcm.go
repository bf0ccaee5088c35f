package irmc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// The eLCM of an iRMC, by HTTP: profiles of settings, and the sessions in which they are read out of the machine or put into it. Paths and
// words are python-scciclient's.

const (
	profilesAt  = "/rest/v1/Oem/eLCM/ProfileManagement/"
	sessionsAt  = "/sessionInformation/"
	biosProfile = "BiosConfig"
	biosPath    = "Server/SystemConfig/BiosConfig"
)

// The states of a session. Any other is a failure.
const (
	sessionActivated = "activated"
	sessionRuns      = "running"
	sessionEnded     = "terminated regularly"
)

// elcm is a turn at the eLCM of a node's iRMC.
type elcm struct {
	ctx context.Context
	f   driver.Fence // nil: it only reads
	l   *link
	as  login
}

// elcm runs do in the iRMC's turn. f is nil for calls that only read.
func (s *SCCI) elcm(ctx context.Context, f driver.Fence, n *node.Document, doing string, do func(elcm) error) error {
	return s.with(ctx, n, doing, func(l *link, as login) error { return do(elcm{ctx, f, l, as}) })
}

// read reads a resource; there is false if the iRMC has none.
func (e elcm) read(at string, into any) (there bool, err error) {
	answer, err := e.l.talk(e.ctx, nil, e.as, http.MethodGet, at, "", nil)
	switch {
	case err != nil:
		return false, err
	case answer.Status == http.StatusNotFound:
		return false, nil
	case answer.Status != http.StatusOK:
		return false, bmc.StatusFailure(answer.Status, false, said(answer), nil)
	}
	return true, decode(answer, into)
}

// write sends a write, for which the iRMC is to answer with that status. missing: nothing was there.
func (e elcm) write(method, at, kind string, body []byte, want int, into any) (missing bool, err error) {
	answer, err := e.l.talk(e.ctx, e.f, e.as, method, at, kind, body)
	switch {
	case err != nil:
		return false, err
	case answer.Status == http.StatusNotFound && method == http.MethodDelete:
		return true, nil
	case answer.Status != want:
		return false, bmc.StatusFailure(answer.Status, true, said(answer), nil)
	case into == nil:
		return false, nil
	}
	if err := decode(answer, into); err != nil {
		return false, &bmc.Failure{Class: bmc.Unknown, Said: "a write, but " + err.Error()}
	}
	return false, nil
}

// said is the text of a refusal.
func said(a bmc.Answer) string {
	return http.StatusText(a.Status) + " " + string(a.Body[:min(len(a.Body), 1000)])
}

// decode reads an answer. Lines with headers may stand before the JSON.
func decode(a bmc.Answer, into any) error {
	body := a.Body
	if i := bytes.LastIndex(body, []byte("\r\n")); !json.Valid(body) && i >= 0 {
		body = body[i:]
	}
	if err := json.Unmarshal(bytes.TrimSpace(body), into); err != nil {
		return fmt.Errorf("its answer is no JSON that can be read: %w", err)
	}
	return nil
}

// dropProfile removes the profile of the BIOS from the store, which has one place for it. What is not there is not removed.
func (e elcm) dropProfile() error {
	var profile json.RawMessage
	if there, err := e.read(profilesAt+biosProfile, &profile); err != nil || !there {
		return err
	}
	_, err := e.write(http.MethodDelete, profilesAt+biosProfile, "", nil, http.StatusOK, nil)
	return err
}

// begun is the answer to an order that begins a session.
type begun struct {
	Session struct {
		ID     sessionID `json:"Id"`
		Status string
	}
}

// sessionID is a session's name, which some firmwares write as a number.
type sessionID string

// UnmarshalJSON implements json.Unmarshaler.
func (s *sessionID) UnmarshalJSON(raw []byte) error {
	*s = sessionID(strings.Trim(string(raw), `"`))
	return nil
}

// readOut has the settings read out of the machine. It returns the session.
func (e elcm) readOut() (session string, err error) {
	var b begun
	_, err = e.write(http.MethodPost, profilesAt+"get?PARAM_PATH="+url.QueryEscape(biosPath), "", nil, http.StatusAccepted, &b)
	return string(b.Session.ID), err
}

// putIn has settings put into the machine. It returns the session.
func (e elcm) putIn(settings []byte) (session string, err error) {
	var b begun
	_, err = e.write(http.MethodPost, profilesAt+"set", "application/x-www-form-urlencoded", settings, http.StatusAccepted, &b)
	return string(b.Session.ID), err
}

// sessions are the names of those that the iRMC lists.
func (e elcm) sessions() (names []string, err error) {
	var list struct {
		SessionList struct {
			Contains []struct {
				ID sessionID `json:"Id"`
			}
		}
	}
	if _, err := e.read(sessionsAt, &list); err != nil {
		return nil, err
	}
	for _, s := range list.SessionList.Contains {
		names = append(names, string(s.ID))
	}
	return names, nil
}

// status is the state of a session; there is false if the iRMC has forgotten it.
func (e elcm) status(session string) (status string, there bool, err error) {
	var b begun
	there, err = e.read(sessionsAt+url.PathEscape(session)+"/status", &b)
	return b.Session.Status, there, err
}

// log is what the iRMC tells of a session, for people.
func (e elcm) log(session string) string {
	var log struct{ Session json.RawMessage }
	if there, err := e.read(sessionsAt+url.PathEscape(session)+"/log", &log); err != nil || !there {
		return "it has no log"
	}
	return bmc.Clean(string(log.Session))
}

// forget removes a session that has ended from the list.
func (e elcm) forget(session string) error {
	_, err := e.write(http.MethodDelete, sessionsAt+url.PathEscape(session)+"/remove", "", nil, http.StatusOK, nil)
	return err
}
