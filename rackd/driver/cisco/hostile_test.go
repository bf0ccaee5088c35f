package cisco

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// An answer that would become a million objects is refused before it takes the memory of a rackd's other nodes.
func TestAnAnswerOfAMillionObjects(t *testing.T) {
	for name, bomb := range map[string]string{"objects": "<a>" + strings.Repeat("<b/>", 1_000_000) + "</a>", "attributes": "<a " + strings.Repeat(`b="" `, 800_000) + "/>"} {
		_, err := new(Session).read(bmc.Answer{Status: http.StatusOK, Body: []byte(bomb)}, false)
		if f, is := err.(*bmc.Failure); !is || !strings.Contains(f.Said, "pieces") || len(f.Said) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := new(Session).read(bmc.Answer{Status: http.StatusOK, Body: []byte("<a>" + strings.Repeat(`<lsbootStorage order="1" access="read-write" type="storage"/>`, 5000) + "</a>")}, false); err != nil {
		t.Errorf("5,000 objects: %v", err)
	}
}

// A manager that repeats the cookie of a request, in an error or on a page of its own, does not bring it into rackd's errors.
func TestTheCookieIsInNoError(t *testing.T) {
	const cookie, password = "1217377205/85f7ff49-e4ec-42fc-9437-da77a1a2c4bf", "s3cret&pass"
	s := &Session{cookie: cookie, at: bmc.Web{Password: password}}
	escaped := strings.ReplaceAll(password, "&", "&amp;")
	for name, body := range map[string]string{
		"an error":                `<configResolveDn cookie="` + cookie + `" errorCode="552" errorDescr="Authorization required for ` + cookie + `"/>`,
		"an error with password":  `<aaaRefresh errorCode="551" errorDescr="inName admin inPassword ` + escaped + ` inCookie ` + cookie + `"/>`,
		"another error":           `<configConfMo errorCode="103" errorDescr="cannot ` + strings.ReplaceAll(cookie, "/", "&#47;") + `"/>`,
		"a page":                  "<html>request was: " + cookie + " " + password,
		"a page that is cut":      "no XML at all, for " + strings.Repeat("x", 60) + " " + cookie,
		"what an XML parser says": "<a><" + cookie + "></a>",
	} {
		_, err := s.read(bmc.Answer{Status: http.StatusOK, Body: []byte(body)}, true)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		f, is := errors.AsType[*bmc.Failure](err)
		if !is || strings.Contains(f.Said, cookie[:14]) || strings.Contains(f.Said, "85f7ff49") || strings.Contains(f.Said, password) || strings.Contains(f.Said, escaped) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
