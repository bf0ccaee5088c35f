package cisco

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// An answer that would become a million objects is refused before it takes the memory of a rackd's other nodes.
func TestAnAnswerOfAMillionObjects(t *testing.T) {
	for name, bomb := range map[string]string{"objects": "<a>" + strings.Repeat("<b/>", 1_000_000) + "</a>", "attributes": "<a " + strings.Repeat(`b="" `, 800_000) + "/>"} {
		_, err := read(bmc.Answer{Status: http.StatusOK, Body: []byte(bomb)}, false)
		if f, is := err.(*bmc.Failure); !is || !strings.Contains(f.Said, "pieces") || len(f.Said) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(bmc.Answer{Status: http.StatusOK, Body: []byte("<a>" + strings.Repeat(`<lsbootStorage order="1" access="read-write" type="storage"/>`, 5000) + "</a>")}, false); err != nil {
		t.Errorf("5,000 objects: %v", err)
	}
}
