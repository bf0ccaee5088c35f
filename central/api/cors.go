package api

import (
	"net/http"
	"slices"

	"github.com/ironyard/ironyard/central/api/microversion"
)

const (
	corsExposed = microversion.Header + ", " + microversion.MinHeader + ", " + microversion.MaxHeader +
		", Openstack-Request-Id, X-Openstack-Request-Id, Location"
	corsMethods = "GET, PUT, POST, DELETE, PATCH"
	corsHeaders = "Content-Type, X-Auth-Token, X-Openstack-Request-Id, " + microversion.Header + ", " + microversion.Standard
)

// writeCORS tells browsers what pages of the configured origins may do. Others get
// nothing: their browsers keep the answer from them.
func (s *Server) writeCORS(h http.Header, req *http.Request) {
	origin := req.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.CORSOrigins, origin) {
		return
	}
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if req.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", corsHeaders)
		h.Set("Access-Control-Max-Age", "3600")
	}
}
