package bmc

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

type counted struct {
	mu  sync.Mutex
	all []string
}

func (c *counted) BMCCalled(hardwareType, vendor, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, hardwareType+" "+vendor+" "+result)
}

// Each call counts once, by the class that its error gets. One that is held back is none.
func TestCallsAreCounted(t *testing.T) {
	c := &counted{}
	p := NewPool[*talk](PoolOptions{Driver: "d", Shared: Shared{Calls: c}})
	f := &far{}
	a := accountOf("a", 1).Of(&node.Document{Driver: "redfish", Properties: map[string]any{"vendor": "Dell Inc."}})
	for _, err := range []error{nil, &Failure{Class: Denied}, &Failure{Class: Busy}, &Failure{}, &Lost{Err: errors.New("reset")}, &Lost{Err: errors.New("reset"), Unknown: true},
		fmt.Errorf("no: %w", driver.ErrInvalid), fmt.Errorf("no: %w", driver.ErrUnsupported), fmt.Errorf("no: %w", driver.ErrFenced)} {
		_ = p.Use(t.Context(), a, f.login, func(*talk) error { return err })
	}
	b := accountOf("b", 2)
	f.refuse.Store(true)
	for range 3 {
		_ = p.Use(t.Context(), b, f.login, nothing)
	}
	want := []string{"redfish dell ok", "redfish dell denied", "redfish dell busy", "redfish dell refused", "redfish dell unreachable", "redfish dell unknown",
		"redfish dell invalid", "redfish dell unsupported", "redfish dell fenced", "d unknown refused"}
	if !slices.Equal(c.all, want) {
		t.Errorf("counted %q, want %q", c.all, want)
	}
	for _, r := range classNames {
		if !slices.Contains(Results, r) {
			t.Errorf("%s is no result", r)
		}
	}
	_ = p.Close(t.Context())
}

// What anyone may write makes no label of its own.
func TestVendorsAreFew(t *testing.T) {
	for said, want := range map[string]string{"": "unknown", " ": "unknown", "Hewlett Packard Enterprise": "hpe", "HPE": "hpe", "Dell Inc.": "dell", "dell": "dell", "Super Micro Computer": "supermicro",
		"FUJITSU": "fujitsu", "Intel(R) Corporation": "intel", "Sharp": "other", "a\nb": "other", "Reunion": "other"} {
		if got := Vendor(said); got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
}
