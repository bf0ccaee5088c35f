package auth

import (
	"net/http/httptest"
	"testing"
)

func TestWithoutAuthenticationEverybodyAdministers(t *testing.T) {
	c, err := NoAuth{}.Authenticate(httptest.NewRequest("GET", "/v1/nodes", nil))
	if err != nil || !c.System || !c.Has("admin") || c.Has("service") {
		t.Fatalf("caller %+v, %v", c, err)
	}
}
