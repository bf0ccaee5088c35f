package irmc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
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
	raidProfile = "RAIDAdapter"
	raidPath    = "Server/HWConfigurationIrmc/Adapters/RAIDAdapter"
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

// remove removes what may be there.
func (e elcm) remove(at string) error {
	answer, err := e.l.talk(e.ctx, e.f, e.as, http.MethodDelete, at, "", nil)
	switch {
	case err != nil:
		return err
	case answer.Status != http.StatusOK && answer.Status != http.StatusNotFound:
		return bmc.StatusFailure(answer.Status, true, said(answer), nil)
	}
	return nil
}

// withoutELCM are the answers of iRMCs that have no eLCM, or no licence for it.
var withoutELCM = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

// begin gives an order that begins a session, and returns the session.
func (e elcm) begin(at, kind string, body []byte) (session string, err error) {
	answer, err := e.l.talk(e.ctx, e.f, e.as, http.MethodPost, at, kind, body)
	var b begun
	switch {
	case err != nil:
		return "", err
	case answer.Status/100 == 2 && answer.Status != http.StatusAccepted && decode(answer, &b) == nil && b.Session.ID != "":
		return string(b.Session.ID), nil // it has begun, whatever the status is called
	case answer.Status != http.StatusAccepted:
		failure := bmc.StatusFailure(answer.Status, true, said(answer), nil)
		if slices.Contains(withoutELCM, answer.Status) {
			failure.Class = bmc.Unsupported
		}
		return "", failure
	}
	if err := decode(answer, &b); err != nil {
		return "", &bmc.Failure{Class: bmc.Unknown, Said: "the order, but " + err.Error()}
	}
	return string(b.Session.ID), nil
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

// drop removes a profile from the store, which has one place for each kind. What is not there is not removed.
func (e elcm) drop(profile string) error {
	var is json.RawMessage
	if there, err := e.read(profilesAt+profile, &is); err != nil || !there {
		return err
	}
	return e.remove(profilesAt + profile)
}

// stored reads a profile that a session has left in the store.
func (e elcm) stored(profile string, into any) error {
	there, err := e.read(profilesAt+profile, into)
	if err == nil && !there {
		err = fmt.Errorf("its session has ended well, and there is no profile %s in the iRMC's store", profile)
	}
	return err
}

// What is taken of sessions: an iRMC numbers them, and removes old ones from its list.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

const mostSessions = 500

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
	name := strings.Trim(string(raw), `"`)
	if name == "null" || !sessionName.MatchString(name) {
		return fmt.Errorf("%.40q is no name of a session", name)
	}
	*s = sessionID(name)
	return nil
}

// readOut has the settings of the BIOS read out of the machine. It returns the session.
func (e elcm) readOut() (session string, err error) { return e.obtain(biosPath) }

// obtain has a profile read out of the machine into the store. It returns the session.
func (e elcm) obtain(path string) (session string, err error) {
	return e.begin(profilesAt+"get?PARAM_PATH="+url.QueryEscape(path), "", nil)
}

// putIn has settings of the BIOS put into the machine. It returns the session.
func (e elcm) putIn(settings []byte) (session string, err error) {
	return e.begin(profilesAt+"set", "application/x-www-form-urlencoded", settings)
}

// putRAID has an order about logical drives carried out. python-scciclient sends it with another type than settings.
func (e elcm) putRAID(body []byte) (session string, err error) {
	return e.begin(profilesAt+"set", "application/json", body)
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
	if count := len(list.SessionList.Contains); count > mostSessions {
		return nil, fmt.Errorf("it lists %d sessions, and %d are looked through: remove those that have ended", count, mostSessions)
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
	if err == nil && there && b.Session.Status == "" {
		err = errors.New("its answer tells no status of session " + session)
	}
	return bmc.Clean(b.Session.Status, e.as.password), there, err
}

// log is what the iRMC tells of a session, for people.
func (e elcm) log(session string) string {
	var log struct{ Session, SessionLog json.RawMessage }
	if there, err := e.read(sessionsAt+url.PathEscape(session)+"/log", &log); err != nil || !there {
		return "it has no log"
	}
	return bmc.Clean(string(log.Session)+string(log.SessionLog), e.as.password)
}

// clean makes a text of the iRMC fit to show: bounded, and without the password.
func (e elcm) clean(text string) string { return bmc.Clean(text, e.as.password) }

// forget removes a session that has ended from the list.
func (e elcm) forget(session string) error {
	return e.remove(sessionsAt + url.PathEscape(session) + "/remove")
}
