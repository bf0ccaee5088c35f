// Package ciscotest is a server of Cisco's XML API with a tree of managed objects, for tests of drivers. Cisco's own Python
// SDKs, as clients of it, have shown that it speaks the API; it is no judge of what the objects mean.
//
// It may import rackd/driver/cisco and rackd/driver/drivertest; only tests import it.
package ciscotest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/cisco"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// Server is such a server. Its fields are used within Set.
type Server struct {
	*drivertest.Web
	User, Password string
	// Period is what logins are told after how many seconds a cookie ends.
	Period int
	// Most bounds the sessions; 0: none.
	Most int
	// Wrote is told each object that was written, when it is there.
	Wrote func(o cisco.Object)

	Cookies                   []string
	Logins, Refused, Refreshs int
	Logouts                   int
	objects                   []cisco.Object // flat, with their dn
	number                    int
}

// New starts a server until the test ends.
func New(t *testing.T) *Server {
	s := &Server{User: "admin", Password: "s3cret", Period: 600}
	s.Web = drivertest.NewWeb(t, true, s.answer)
	s.Spoiler.Restart = func() { s.Cookies = nil }
	return s
}

// Put adds an object, or changes it, with all below it.
func (s *Server) Put(o cisco.Object) {
	dn := o.Get("dn")
	i := slices.IndexFunc(s.objects, func(x cisco.Object) bool { return x.Get("dn") == dn })
	if i < 0 {
		i = len(s.objects)
		s.objects = append(s.objects, cisco.New(o.Class(), "dn", dn))
	}
	at := s.objects[i]
	for _, a := range o.Attrs {
		if a.Name.Local != "rn" && a.Name.Local != "status" {
			at = at.Set(a.Name.Local, a.Value)
		}
	}
	s.objects[i] = at
	for _, c := range o.Children {
		s.Put(c.Set("dn", dn+"/"+c.RN()))
	}
}

// Object is the object of that name, without its children.
func (s *Server) Object(dn string) cisco.Object {
	for _, o := range s.objects {
		if o.Get("dn") == dn {
			return o
		}
	}
	return cisco.Object{}
}

func (s *Server) children(dn string, deep bool) (list []cisco.Object) {
	for _, o := range s.objects {
		if rest, below := strings.CutPrefix(o.Get("dn"), dn+"/"); below && !strings.Contains(rest, "/") {
			if deep {
				o = o.With(s.children(o.Get("dn"), true)...).Set("rn", rest)
			}
			list = append(list, o)
		}
	}
	return list
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var method cisco.Object
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/nuova" || xml.Unmarshal(body, &method) != nil {
		http.Error(w, "not of this API", http.StatusBadRequest)
		return
	}
	answer := s.do(method).Set("response", "yes")
	raw, err := xml.Marshal(answer)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(raw)
}

func (s *Server) do(m cisco.Object) cisco.Object {
	name := m.Class()
	refuse := func(code, text string) cisco.Object {
		return cisco.New(name, "errorCode", code, "invocationResult", "unidentified-fail", "errorDescr", text)
	}
	switch name {
	case "aaaLogin", "aaaRefresh":
		if m.Get("inName") != s.User || m.Get("inPassword") != s.Password {
			s.Refused++
			return refuse("551", "Authentication failed for "+m.Get("inPassword"))
		}
		if name == "aaaRefresh" {
			if !s.end(m.Get("inCookie")) {
				return refuse("552", "Authorization required")
			}
			s.Refreshs++
		} else {
			if s.Most > 0 && len(s.Cookies) >= s.Most {
				return refuse("572", "User reached maximum session limit")
			}
			s.Logins++
		}
		s.number++
		cookie := fmt.Sprintf("1416964800/cookie-%d", s.number)
		s.Cookies = append(s.Cookies, cookie)
		return cisco.New(name, "cookie", "", "outCookie", cookie, "outRefreshPeriod", fmt.Sprint(s.Period), "outPriv", "admin,read-only", "outDomains", "", "outChannel", "noencssl",
			"outEvtChannel", "noencssl", "outSessionId", "web_1", "outVersion", "4.1(2a)", "outName", "")
	case "aaaLogout":
		if !s.end(m.Get("inCookie")) {
			return refuse("555", "Session not found")
		}
		s.Logouts++
		return cisco.New(name, "cookie", "", "outStatus", "success")
	}
	if !slices.Contains(s.Cookies, m.Get("cookie")) {
		return refuse("552", "Authorization required")
	}
	ok := cisco.New(name, "cookie", m.Get("cookie"))
	deep := m.Get("inHierarchical") == "true" || m.Get("inHierarchical") == "yes"
	switch name {
	case "configResolveDn":
		s.Read()
		out := cisco.New("outConfig")
		if o := s.Object(m.Get("dn")); o.Class() != "" {
			if deep {
				o = o.With(s.children(m.Get("dn"), true)...)
			}
			out = out.With(o)
		}
		return ok.Set("dn", m.Get("dn")).With(out)
	case "configResolveDns":
		s.Read()
		in, _ := m.Child("inDns")
		out, unresolved := cisco.New("outConfigs"), cisco.New("outUnresolved")
		for _, dn := range in.Children {
			if o := s.Object(dn.Get("value")); o.Class() != "" {
				out.Children = append(out.Children, o)
			} else {
				unresolved.Children = append(unresolved.Children, dn)
			}
		}
		return ok.With(out, unresolved)
	case "configResolveClass":
		s.Read()
		out := cisco.New("outConfigs")
		for _, o := range s.objects {
			if o.Class() == m.Get("classId") {
				out.Children = append(out.Children, o)
			}
		}
		return ok.Set("classId", m.Get("classId")).With(out)
	case "configResolveChildren":
		s.Read()
		out := cisco.New("outConfigs")
		for _, o := range s.children(m.Get("inDn"), deep) {
			if m.Get("classId") == "" || o.Class() == m.Get("classId") {
				out.Children = append(out.Children, o)
			}
		}
		return ok.With(out)
	case "configConfMo", "configConfMos":
		return s.configure(m, ok, refuse)
	}
	return refuse("ERR-xml-parse-error", "no method "+name)
}

func (s *Server) configure(m, ok cisco.Object, refuse func(code, text string) cisco.Object) cisco.Object {
	in, single := m.Child("inConfig")
	out := cisco.New("outConfig")
	if !single {
		in, _ = m.Child("inConfigs")
		out = cisco.New("outConfigs")
	}
	for _, o := range in.Children {
		if o.Class() == "pair" && len(o.Children) == 1 {
			o = o.Children[0]
		}
		if dn := m.Get("dn"); o.Get("dn") == "" && dn != "" {
			o = o.Set("dn", dn)
		}
		if o.Get("status") == "deleted" {
			s.objects = slices.DeleteFunc(s.objects, func(x cisco.Object) bool {
				return x.Get("dn") == o.Get("dn") || strings.HasPrefix(x.Get("dn"), o.Get("dn")+"/")
			})
		} else {
			if known := s.Object(o.Get("dn")); known.Class() != "" && known.Class() != o.Class() {
				return refuse("101", "wrong class "+o.Class())
			}
			s.Put(o)
		}
		if s.Wrote != nil {
			s.Wrote(o)
		}
		back := s.Object(o.Get("dn"))
		if back.Class() == "" { // it was deleted
			back = o
		}
		if !single {
			back = cisco.New("pair", "key", o.Get("dn")).With(back)
		}
		out.Children = append(out.Children, back)
	}
	s.Web.Wrote()
	return ok.With(out)
}

func (s *Server) end(cookie string) bool {
	i := slices.Index(s.Cookies, cookie)
	if i >= 0 {
		s.Cookies = slices.Delete(s.Cookies, i, i+1)
	}
	return i >= 0
}
