package api

import (
	"net/http"
	"net/netip"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/smbios"
)

// cutBoot takes the id of a boot off the front of a request's path, where an agent has it from its
// boot script. What comes behind it is a path of the API, for ramdisks only.
func cutBoot(req *http.Request) (boot string, plain *http.Request) {
	id, rest := agentapi.CutBoot(req.URL.Path)
	if id == "" {
		return "", req
	}
	u := *req.URL
	u.Path, u.RawPath = rest, ""
	copied := *req
	copied.URL, copied.RequestURI = &u, u.RequestURI()
	return id, &copied
}

// ofRamdisks reports whether a path is one that ramdisks call.
func ofRamdisks(methods map[string]*Route) bool {
	for _, route := range methods {
		if anonymous[route.Policy] {
			return true
		}
	}
	return false
}

// from is what shows the rackd that runs a node's work that the request comes from its machine. The
// address is the peer's, not what a header says: a proxy's proves nothing.
func (r *Request) from() ask.Caller {
	return ask.Caller{BootID: r.boot, From: r.peer(), Central: true}
}

// system is what the agent says of the machine that it runs on.
func (r *Request) system() smbios.System {
	const most = 128
	cut := func(s string) string { return s[:min(len(s), most)] }
	return smbios.System{UUID: cut(r.Query[agentapi.QuerySystemUUID]), Serial: cut(r.Query[agentapi.QuerySystemSerial])}
}

// peer is the address that the request's connection comes from, invalid without one.
func (r *Request) peer() netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
