package control

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
)

func serve(t *testing.T) (*fleet.Fleet, *Client) {
	c := fleet.Default
	c.Machines, c.Light = 3, true
	f, err := fleet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(Handler(f))
	t.Cleanup(s.Close)
	return f, &Client{Base: s.URL, HTTP: s.Client()}
}

func TestMachines(t *testing.T) {
	f, c := serve(t)
	f.Members[1].Machine.Start(t.Context())
	all, err := c.Machines(t.Context())
	if err != nil || len(all) != 3 || all[0].State != machine.Off || !all[1].On || all[1].Boots != 1 || all[2].Disk != "empty" {
		t.Fatalf("%+v, %v", all, err)
	}
	if e := all[2].Enrolment; e.Driver != "redfish" || e.MACs[0] != f.Members[2].MAC || e.DriverInfo["redfish_verify_ca"] != false {
		t.Errorf("enrolment %+v", e)
	}
	if err := c.Glitch(t.Context(), "sim-0001"); err != nil {
		t.Error(err)
	}
	if m, err := c.Machine(t.Context(), "sim-0001"); err != nil || m.Boots != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := c.Glitch(t.Context(), "sim-0000"); err == nil || !strings.Contains(err.Error(), "off") {
		t.Errorf("glitch of a machine that is off: %v", err)
	}
	if _, err := c.Machine(t.Context(), "sim-9"); err == nil || !strings.Contains(err.Error(), "no machine") {
		t.Errorf("unknown machine: %v", err)
	}
}

func TestFaults(t *testing.T) {
	f, c := serve(t)
	yes, three := true, 3
	if err := c.SetFaults(t.Context(), "sim-0000", Faults{Isolate: &yes}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetFaults(t.Context(), "", Faults{FailWrites: &three}); err != nil {
		t.Fatal(err)
	}
	if f.Members[0].Faults.Network() != fault.ErrIsolated || f.Members[1].Faults.Network() != nil {
		t.Error("the wrong machine is isolated")
	}
	for _, m := range f.Members {
		if m.Faults.Write() != fault.ErrWrite {
			t.Errorf("%s writes", m.Name)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.Base+"/faults", strings.NewReader(`{"bmc_hang":true,"typo":1}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown fault: %s", resp.Status)
	}
}

func TestJournal(t *testing.T) {
	f, c := serve(t)
	go func() {
		f.Journal.Note(journal.Record{Machine: "sim-0000", Kind: journal.PowerOn})
		f.Journal.Note(journal.Record{Machine: "sim-0001", Kind: journal.Violation, Detail: "x"})
	}()
	r, err := c.Await(t.Context(), 0, func(r journal.Record) bool { return r.Kind == journal.Violation })
	if err != nil || r.Seq != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	all, err := c.Journal(t.Context(), 0)
	if err != nil || len(all) != 2 || all[0].Kind != journal.PowerOn || all[1].Detail != "x" {
		t.Errorf("%+v, %v", all, err)
	}
	if p, err := c.After(t.Context(), 2, time.Millisecond); err != nil || len(p.Records) != 0 || p.Last != 2 {
		t.Errorf("nothing new: %+v, %v", p, err)
	}
	if n, err := c.Counts(t.Context(), "sim-0001"); err != nil || n[journal.Violation] != 1 || n[journal.PowerOn] != 0 {
		t.Errorf("%v, %v", n, err)
	}
	if found, err := c.Audit(t.Context()); err != nil || len(found) != 1 || found[0].Machine != "sim-0001" {
		t.Errorf("%v, %v", found, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Await(ctx, 2, func(journal.Record) bool { return true }); err == nil {
		t.Error("awaited a record that never came")
	}
	if err := c.do(t.Context(), http.MethodGet, "/journal?after=x", nil, nil); err == nil {
		t.Error("after=x was understood")
	}
}

// What is forgotten proves nothing.
func TestForgottenRecords(t *testing.T) {
	c := fleet.Default
	c.Machines, c.Light, c.Keep = 1, true, 4
	f, err := fleet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(Handler(f))
	defer s.Close()
	client := &Client{Base: s.URL, HTTP: s.Client()}
	for range 10 {
		f.Journal.Note(journal.Record{Kind: journal.PowerOn})
	}
	if _, err := client.Journal(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("journal: %v", err)
	}
	if _, err := client.Audit(t.Context()); err == nil || !strings.Contains(err.Error(), "forgotten") {
		t.Errorf("audit: %v", err)
	}
}

func TestRackds(t *testing.T) {
	f, c := serve(t)
	rackd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("#!ipxe\nexit 1\n")) }))
	defer rackd.Close()
	if err := c.SetRackds(t.Context(), []string{rackd.URL}); err != nil {
		t.Error(err)
	}
	firmware := ipxe.Client{Rackds: f.Rackds, Pace: pace.New(pace.Timings{}, 1, 1), Faults: &fault.Faults{}}
	if s, _, err := firmware.Script(t.Context(), "02:00:00:00:00:01"); err != nil || s.Order != ipxe.LocalDisk {
		t.Errorf("machines do not ask the rackd: %+v, %v", s, err)
	}
}
