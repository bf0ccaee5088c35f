package clients

import (
	"context"
	"net"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// plugged is a machine that stays as it is.
type plugged struct{}

func (plugged) On() bool                           { return true }
func (plugged) Start(context.Context) error        { return nil }
func (plugged) Stop(context.Context) error         { return nil }
func (plugged) Reset(context.Context) error        { return nil }
func (plugged) Shutdown(context.Context) error     { return nil }
func (plugged) Restart(context.Context) error      { return nil }
func (plugged) Interrupt(context.Context) error    { return nil }
func (plugged) BootOverride() (string, bool)       { return "", false }
func (plugged) SetBootOverride(string, bool) error { return nil }

// bmc serves a BMC for as long as t runs and returns its URL.
func bmc(t *testing.T) string {
	t.Helper()
	b, err := vbmc.New(vbmc.Config{Name: "redfish", UUID: "11111111-2222-4333-8444-555555555555", Username: "admin", Password: "secret", UEFI: true}, plugged{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "https://" + l.Addr().String()
}
