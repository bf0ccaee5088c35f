package redfish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/driver"
)

// streaming is a BMC whose stream tells what send gets.
func streaming(t *testing.T, send <-chan string) (e *emulator, d *Driver, opened func() int) {
	t.Helper()
	e, d = newEmulator(t), newDriver(t, Options{})
	m := newModel("Contoso")
	m.at["/redfish/v1"]["EventService"] = link("/redfish/v1/EventService")
	m.put(map[string]map[string]any{"/redfish/v1/EventService": {"@odata.id": "/redfish/v1/EventService", "ServiceEnabled": true, "ServerSentEventUri": "/redfish/v1/EventService/SSE"}})
	count := 0
	e.set(func() {
		e.hook = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/redfish/v1/EventService/SSE" {
				return m.serve(w, r)
			}
			known := false
			e.set(func() { known = e.sessions[r.Header.Get("X-Auth-Token")]; count++ })
			if !known || r.Header.Get("Accept") != "text/event-stream" {
				refuse(w, http.StatusUnauthorized, "who are you")
				return true
			}
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			for text := range send {
				fmt.Fprint(w, text)
				_ = http.NewResponseController(w).Flush()
			}
			return true
		}
	})
	return e, d, func() (n int) { e.set(func() { n = count }); return n }
}

const powerEvent = "id: 1\ndata: {\"@odata.type\":\"#Event.v1_7_0.Event\",\ndata: \"Events\":[{\"MessageId\":\"ResourceEvent.1.0.ResourceStatusChanged\"}]}\n\n"

// Events come while other calls are made; metrics, comments and what cannot be read are passed over.
func TestEvents(t *testing.T) {
	send := make(chan string, 10)
	e, d, opened := streaming(t, send)
	n := e.node(nil)
	s, err := d.Events(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if state, err := d.PowerState(t.Context(), n); err != nil || state == "" {
		t.Errorf("a call beside the stream: %v", err)
	}
	if e.live() != 1 || opened() != 1 {
		t.Errorf("%d sessions, %d streams", e.live(), opened())
	}
	told := make(chan error, 3)
	var all []driver.BMCEvent
	go func() {
		for {
			events, err := s.Next()
			all = append(all, events...)
			told <- err
			if err != nil {
				return
			}
		}
	}()
	send <- ": alive\n\ndata: {\"MetricValues\":[{}]}\n\ndata: junk\n\n"
	send <- powerEvent
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the event is not told")
	}
	close(send)
	if err := <-told; !errors.Is(err, io.EOF) || len(told) != 0 {
		t.Errorf("the end of the stream: %v", err)
	}
	if len(all) != 1 || all[0].Text != "ResourceEvent.1.0.ResourceStatusChanged" {
		t.Errorf("told %+v", all)
	}
}

// A stream without end, or in another form, costs no memory and no answer.
func TestEventsOfBadFirmware(t *testing.T) {
	send := make(chan string, 1)
	e, d, _ := streaming(t, send)
	s, err := d.Events(t.Context(), e.node(nil))
	if err != nil {
		t.Fatal(err)
	}
	send <- strings.Repeat("data: "+strings.Repeat("x", 1<<10)+"\n", 300)
	close(send)
	if _, err := s.Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an event without end: %v", err)
	}
	s.Close()

	quiet := make(chan string)
	e, d, _ = streaming(t, quiet)
	defer close(quiet)
	ctx, cancel := context.WithCancel(t.Context())
	if s, err = d.Events(ctx, e.node(nil)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Next(); err == nil {
		t.Error("a stream outlives its context")
	}
	s.Close()
	r, other := modelRig(t, newModel("Contoso"))
	if _, err := other.Events(t.Context(), r.Node); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("a BMC without an event service: %v", err)
	}
	wrong := e.node(map[string]any{fieldPassword: "wrong"})
	if _, err := d.Events(t.Context(), wrong); !errors.Is(err, driver.ErrDenied) || strings.Contains(err.Error(), "wrong p") {
		t.Errorf("a wrong password: %v", err)
	}
}
