package vbmc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// Two BMCs behind one listener, told apart by their addresses; both share a
// certificate and report their writes to one place.
func TestManyBMCsOnOneListener(t *testing.T) {
	cert, err := SelfSigned("rack")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var written []string
	bmcs := map[string]*BMC{}
	computers := map[string]*fake{}
	for _, address := range []string{"127.0.0.11", "127.0.0.12"} {
		computers[address] = &fake{}
		bmcs[address], err = New(Config{Username: "admin", Password: "of " + address, Name: address, Certificate: &cert,
			Begin: func(w Write) func(int) {
				mu.Lock()
				defer mu.Unlock()
				i := len(written)
				written = append(written, "")
				return func(status int) {
					mu.Lock()
					defer mu.Unlock()
					written[i] = fmt.Sprintf("%s %s %d", address, w.Method, status)
				}
			}}, computers[address])
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- ServeMany(ctx, l, slog.New(slog.DiscardHandler), func(local net.Addr) *BMC {
			host, _, _ := net.SplitHostPort(local.String())
			return bmcs[host]
		})
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	connect := func(address, password string) (*gofish.APIClient, error) {
		return gofish.Connect(gofish.ClientConfig{Endpoint: "https://" + net.JoinHostPort(address, port), Username: "admin",
			Password: password, Insecure: true, BasicAuth: true})
	}
	if _, err := connect("127.0.0.13", "x"); err == nil {
		t.Error("an address without a BMC answers")
	}
	client, err := connect("127.0.0.12", "of 127.0.0.12")
	if err != nil {
		t.Fatal(err)
	}
	systems, err := client.Service.Systems()
	if err != nil || len(systems) != 1 || systems[0].HostName != "127.0.0.12" {
		t.Fatalf("systems %v, %v", systems, err)
	}
	if _, err := systems[0].Reset(schemas.OnResetType); err != nil {
		t.Fatal(err)
	}
	if computers["127.0.0.11"].On() || !computers["127.0.0.12"].On() {
		t.Error("the reset reached the wrong computer")
	}
	bmcs["127.0.0.12"].Faults.Refuse(true)
	if _, err := connect("127.0.0.12", "of 127.0.0.12"); err == nil {
		t.Error("a BMC that refuses connections answers")
	}
	if _, err := connect("127.0.0.11", "of 127.0.0.11"); err != nil {
		t.Errorf("its neighbour does not answer: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(written) != 1 || written[0] != "127.0.0.12 POST 204" {
		t.Errorf("writes %q, want the one reset with its status", written)
	}
	if n := len(bmcs["127.0.0.12"].Journal.Writes()); n != 0 {
		t.Errorf("%d writes are in the BMC's own journal as well", n)
	}
}
