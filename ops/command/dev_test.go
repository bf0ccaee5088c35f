package command

import (
	"slices"
	"testing"

	"github.com/alecthomas/kong"
)

// The hardware types that are named beside fake-hardware reach the rackd of ironyard dev.
func TestDevTakesHardwareTypes(t *testing.T) {
	var c devCommand
	p, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Parse([]string{"--drivers", "redfish,ipmi"}); err != nil {
		t.Fatal(err)
	}
	if got := c.options(nil).Drivers; !slices.Equal(got, []string{"redfish", "ipmi"}) {
		t.Errorf("drivers %v, want redfish and ipmi beside fake-hardware", got)
	}
}
