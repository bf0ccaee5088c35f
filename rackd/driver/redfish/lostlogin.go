package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// BMCs have few sessions: an iDRAC has eight. A login whose answer was lost may have left one, whose token is lost.
const (
	// sessionLife is how long a BMC keeps a session that is not used, where nothing else was set: half an hour.
	sessionLife = 30 * time.Minute
	// mostLost is how many such logins there may be in sessionLife. Then the driver logs in by basic authentication, which opens none.
	mostLost = 2
	// lostPause is the time between further ones where the node allows for sessions only. So there are no more than five in sessionLife.
	lostPause = 10 * time.Minute
	// slack is what clocks of whole seconds, and a BMC that answers late, may be off by.
	slack = 2 * time.Second
)

// lostLogin is the time in which a BMC may have taken in a login.
type lostLogin struct{ from, to time.Time }

// lostLogins remembers them by BMC. It lives as long as the driver.
type lostLogins struct {
	mu sync.Mutex
	at map[string][]lostLogin
}

// of returns those whose sessions may still be there, the newest last.
func (l *lostLogins) of(endpoint string) []lostLogin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.young(endpoint)
}

// young forgets those that are over. mu is held.
func (l *lostLogins) young(endpoint string) []lostLogin {
	var list []lostLogin
	for _, lost := range l.at[endpoint] {
		if time.Since(lost.to) < sessionLife {
			list = append(list, lost)
		}
	}
	if list == nil {
		delete(l.at, endpoint)
		return nil
	}
	l.at[endpoint] = list
	return list
}

func (l *lostLogins) add(endpoint string, lost lostLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil {
		l.at = map[string][]lostLogin{}
	}
	for other := range l.at {
		l.young(other)
	}
	l.at[endpoint] = append(l.at[endpoint], lost)
}

func (l *lostLogins) forget(endpoint string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.at, endpoint)
}

// allow says how to log in after the logins that were lost.
func (l *lostLogins) allow(a account) (basic bool, err error) {
	lost := l.of(a.endpoint)
	switch {
	case len(lost) < mostLost || a.auth == "basic":
		return false, nil
	case a.auth == "auto":
		return true, nil
	}
	again := lost[len(lost)-1].to.Add(lostPause)
	if time.Now().After(again) {
		return false, nil
	}
	return false, fmt.Errorf("the answers to %d logins were lost, each of which may have left a session, and it has few: rackd does not log in again before %s; with %s auto it does without sessions: %w",
		len(lost), again.UTC().Format(time.TimeOnly+" MST"), a.names.Auth, driver.ErrUnreachable)
}

// watch is the transport of a session. It notes whether the order to open one has left and its answer was lost, and trims service roots.
type watch struct {
	*bmc.HTTP
	lost bool
}

// RoundTrip implements http.RoundTripper.
func (w *watch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.HTTP.RoundTrip(r)
	if r.Method == http.MethodPost {
		if lost, is := errors.AsType[*bmc.Lost](err); is && lost.Left {
			w.lost = true
		}
	}
	if err == nil && resp.StatusCode == http.StatusOK && isRoot(r) {
		err = trim(resp)
	}
	return resp, err
}

// shownSession is what a BMC shows of a session.
type shownSession struct {
	User    string    `json:"UserName"`
	Client  string    `json:"ClientOriginIPAddress"`
	Created time.Time `json:"CreatedTime"`
	Type    string    `json:"SessionType"`
}

// mostSessions bounds the sessions that are looked at.
const mostSessions = 32

// reclaim ends the sessions that lost logins have left at a BMC. A session is this rackd's if three things hold. It is of the same user
// and kind. It comes from the address that the BMC shows for the session at hand. It was opened while such a login was under way. The
// session at hand, opened between from and to, tells what the BMC's clock shows. Of a BMC that shows less no session is ended: it may be
// a person's, or another program's. done reports whether what was lost is accounted for.
func reclaim(ctx context.Context, c *gofish.APIClient, a account, lost []lostLogin, from, to time.Time) (ended int, done bool) {
	own, err := c.GetSession()
	if err != nil || !strings.HasPrefix(own.ID, "/") {
		return 0, false
	}
	mine, err := shown(c, own.ID)
	if err != nil || mine.Created.IsZero() || mine.Client == "" || mine.User != a.user {
		return 0, false
	}
	var list struct {
		Members []struct {
			Path string `json:"@odata.id"`
		}
	}
	if read(c, path.Dir(own.ID), &list) != nil {
		return 0, false
	}
	done = len(list.Members) <= mostSessions
	for _, m := range list.Members[:min(len(list.Members), mostSessions)] {
		if m.Path == own.ID || path.Dir(m.Path) != path.Dir(own.ID) || ctx.Err() != nil {
			continue
		}
		s, err := shown(c, m.Path)
		if err != nil {
			done = done && status(err) == http.StatusNotFound // it has just ended
			continue
		}
		if s.User != mine.User || s.Client != mine.Client || s.Type != mine.Type || !within(s.Created, lost, mine.Created, from, to) {
			continue
		}
		resp, err := c.Delete(m.Path)
		if err != nil {
			done = done && status(err) == http.StatusNotFound
			continue
		}
		resp.Body.Close()
		ended++
	}
	return ended, done && ctx.Err() == nil
}

// within reports whether a session was created while a login was under way, by the BMC's clock. That showed now at a moment between from
// and to.
func within(created time.Time, lost []lostLogin, now, from, to time.Time) bool {
	for _, l := range lost {
		earliest, latest := now.Add(-to.Sub(l.from)-slack), now.Add(-from.Sub(l.to)+slack)
		if !created.Before(earliest) && !created.After(latest) {
			return true
		}
	}
	return false
}

func shown(c *gofish.APIClient, at string) (s shownSession, err error) {
	err = read(c, at, &s)
	return s, err
}

func read(c *gofish.APIClient, at string, into any) error {
	resp, err := c.Get(at)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}
