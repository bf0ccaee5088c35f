package scenario

import (
	"errors"
	"net/url"
	"syscall"
	"testing"
)

// The lab's API asks for no credentials, so a machine of the rack must not reach it.
func TestMachinesDoNotReachTheAPI(t *testing.T) {
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(theRack.APIURL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ns.DialContext(t.Context(), "tcp", api.Host)
	if err == nil {
		conn.Close()
		t.Errorf("a machine reaches the API, which asks for no credentials, at %s", api.Host)
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connection to %s: %v, want it refused", api.Host, err)
	}
}
