package vbmc

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"sort"
	"sync"
	"time"
)

// maxSessions is as few as an iDRAC has: who does not close them runs out.
const maxSessions = 8

// sessionTimeout ends a session that is not used.
const sessionTimeout = 30 * time.Minute

type session struct {
	id, user, client string
	opened, used     time.Time
}

// sessions are the live sessions by token.
type sessions struct {
	mu   sync.Mutex
	live map[string]session
}

// open makes a session, or tells that there are too many.
func (s *sessions) open(user, client string, now time.Time) (token string, made session, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, old := range s.live {
		if now.Sub(old.used) > sessionTimeout {
			delete(s.live, t)
		}
	}
	if len(s.live) >= maxSessions {
		return "", session{}, false
	}
	if s.live == nil {
		s.live = map[string]session{}
	}
	token, made = rand.Text(), session{id: rand.Text()[:8], user: user, client: client, opened: now, used: now}
	s.live[token] = made
	return token, made, true
}

// use tells whether a token is good, and keeps its session alive.
func (s *sessions) use(token string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.live[token]
	if !ok || now.Sub(found.used) > sessionTimeout {
		delete(s.live, token)
		return false
	}
	found.used = now
	s.live[token] = found
	return true
}

// forget ends all, as a start of the BMC does.
func (s *sessions) forget() { s.mu.Lock(); defer s.mu.Unlock(); clear(s.live) }

func (s *sessions) close(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, found := range s.live {
		if found.id == id {
			delete(s.live, token)
			return true
		}
	}
	return false
}

func (s *sessions) list() []session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []session
	for _, found := range s.live {
		all = append(all, found)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id < all[j].id })
	return all
}

// authentic lets a request pass that has a live session or the right password.
func authentic(next handler) handler {
	return func(b *BMC, w http.ResponseWriter, r *http.Request) {
		ok := false
		if token := r.Header.Get("X-Auth-Token"); token != "" {
			ok = b.sessions.use(token, b.cfg.Now())
		} else if user, password, has := r.BasicAuth(); has {
			ok = b.knows(user, password)
		}
		if !ok || b.Faults.rejecting() {
			w.Header().Set("WWW-Authenticate", `Basic realm="Redfish"`)
			unauthorized.write(w)
			return
		}
		next(b, w, r)
	}
}

func (b *BMC) knows(user, password string) bool {
	return subtle.ConstantTimeCompare([]byte(user), []byte(b.cfg.Username)) == 1 &&
		subtle.ConstantTimeCompare([]byte(password), []byte(b.cfg.Password)) == 1
}

func (b *BMC) createSession(w http.ResponseWriter, r *http.Request) {
	var body struct{ UserName, Password string }
	if !decode(w, r, &body) {
		return
	}
	if !b.knows(body.UserName, body.Password) || b.Faults.rejecting() {
		unauthorized.write(w)
		return
	}
	token, s, ok := b.sessions.open(body.UserName, clientOf(r), b.cfg.Now())
	if !ok {
		refusal{http.StatusServiceUnavailable, "SessionLimitExceeded",
			"The session establishment failed due to the number of simultaneous sessions exceeding the limit of the implementation."}.write(w)
		return
	}
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", sessionsPath+"/"+s.id)
	write(w, http.StatusCreated, s.resource())
}

func (b *BMC) deleteSession(w http.ResponseWriter, r *http.Request) {
	if !b.sessions.close(r.PathValue("id")) {
		notFound(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *BMC) showSession(w http.ResponseWriter, r *http.Request) {
	for _, s := range b.sessions.list() {
		if s.id == r.PathValue("id") {
			write(w, http.StatusOK, s.resource())
			return
		}
	}
	notFound(w, r)
}

func (b *BMC) listSessions(w http.ResponseWriter, _ *http.Request) {
	var paths []string
	for _, s := range b.sessions.list() {
		paths = append(paths, sessionsPath+"/"+s.id)
	}
	write(w, http.StatusOK, collection(sessionsPath, "SessionCollection", "Sessions", paths...))
}

func (s session) resource() object {
	return resource(sessionsPath+"/"+s.id, "Session.v1_4_0.Session", s.id, "User Session", object{"UserName": s.user, "SessionType": "Redfish",
		"ClientOriginIPAddress": s.client, "CreatedTime": s.opened.Format(time.RFC3339)})
}

// clientOf is the address that a request comes from.
func clientOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
