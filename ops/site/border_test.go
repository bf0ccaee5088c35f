package site

import (
	"context"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/join"
)

func TestFleetWorksUnderItsPermissions(t *testing.T) {
	f := newFleet(t)
	hub := f.join(join.Scope{Role: join.Hub, Name: "hub-1", Address: loopback()})
	f.serve(hub)
	ctx, cancel := context.WithCancel(t.Context())
	pushed := make(chan error, 1)
	go func() {
		pushed <- f.authority.PushAccounts(ctx, "tls://"+hub.Scope.Address+":4222", f.log)
	}()
	t.Cleanup(func() { cancel(); <-pushed })
	east := f.join(join.Scope{Role: join.Bus, Site: "east", Name: "east-1", Address: loopback()})
	f.serve(east)
	began := time.Now()
	central := f.open(f.asCentral("east", hub.Scope.Address), "east", bus.Settings{Replicas: 1})
	t.Logf("open after %v", time.Since(began))
	r := f.join(join.Scope{Role: join.Rackd, Site: "east", Name: "r1", Group: "rack-a"})
	site := f.open(f.connect(r), "", bus.Settings{OpenOnly: true})
	_ = site
	_ = central
}
