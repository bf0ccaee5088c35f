package bench

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/drivers"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// readBySushy reads the power of machines twice by sushy, the library that Ironic has for Redfish. So many threads read, each
// machine in a session that is kept. For both rounds it prints reads a second and processor time a read.
const readBySushy = `
import json, os, sys, time, warnings
for name in "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE": # which win over verify=False
    os.environ.pop(name, None)
from concurrent.futures import ThreadPoolExecutor
import sushy
from sushy import auth
warnings.simplefilter("ignore")
ask = json.load(sys.stdin)
systems = {}
def first(address):
    c = sushy.Sushy(address, auth=auth.SessionOrBasicAuth(ask["user"], ask["password"]), verify=False)
    systems[address] = c.get_system()
    return systems[address].power_state
def again(address):
    systems[address].refresh(force=True)
    return systems[address].power_state
with ThreadPoolExecutor(ask["threads"]) as pool:
    for read in first, again:
        began, cpu = time.time(), time.process_time()
        states = list(pool.map(read, ask["addresses"]))
        assert all(s in (sushy.PowerState.OFF, "off") for s in states), states
        print(json.dumps([len(states) / (time.time() - began), (time.process_time() - cpu) / len(states)]))
`

// BenchmarkPowerBesideSushy reads the power of 1,000 machines by Redfish over TLS as power sync does: first with a login each,
// then in the sessions that are kept. sushy reads some of the same BMCs, as many at once. ratio is how many times as
// many reads a second the driver does as sushy. The BMCs are in this process and share its cores.
func BenchmarkPowerBesideSushy(b *testing.B) {
	const size, bySushy = 1_000, 100
	c := fleet.Default
	c.Machines, c.Network, c.Light = size, netip.MustParsePrefix("127.84.0.0/16"), true
	c.BMCPort, c.AgentPort = 8643, 9799 // other fleets may run on this machine
	f, err := fleet.New(c)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	up, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- f.Run(ctx, func() { close(up) }) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	select {
	case <-up:
	case err := <-done:
		done <- nil
		b.Fatal(err)
	}
	atOnce := 4 * runtime.NumCPU()
	var nodes []*node.Document
	peer := map[string]any{"user": c.User, "password": c.Password, "threads": atOnce}
	var addresses []any
	for i, m := range f.Members {
		e := f.Enrolment(m)
		nodes = append(nodes, &node.Document{UUID: m.UUID, Name: m.Name, Driver: e.Driver, DriverInfo: e.DriverInfo})
		if i < bySushy {
			addresses = append(addresses, e.DriverInfo["redfish_address"])
		}
	}
	peer["addresses"] = addresses
	for b.Loop() {
		set, err := drivers.Open(drivers.Options{Enabled: []string{"redfish"}, MaxBMCs: size, BMCPace: 1000,
			BMCs: outbound.BMCs{netip.MustParsePrefix("127.0.0.0/8")}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			b.Fatal(err)
		}
		ours := map[string]float64{}
		for _, round := range []string{"login", "session"} {
			began := time.Now()
			readPower(b, set, nodes, atOnce)
			ours[round] = size / time.Since(began).Seconds()
			b.ReportMetric(ours[round], round+"-reads/s")
		}
		if err := set.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		asked, err := json.Marshal(peer)
		if err != nil {
			b.Fatal(err)
		}
		p := exec.CommandContext(b.Context(), "/usr/bin/python3", "-c", readBySushy)
		p.Stdin = strings.NewReader(string(asked))
		var why strings.Builder
		p.Stderr = &why
		out, err := p.Output()
		if err != nil {
			b.Fatalf("sushy: %v: %.2000s", err, why.String())
		}
		said := json.NewDecoder(strings.NewReader(string(out)))
		for _, round := range []string{"login", "session"} {
			var figures [2]float64
			if err := said.Decode(&figures); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(figures[0], "sushy-"+round+"-reads/s")
			b.ReportMetric(figures[1]*1e6, "sushy-"+round+"-cpu-us/read")
			b.ReportMetric(ours[round]/figures[0], round+"-ratio")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// readPower reads the power of all nodes, so many at once.
func readPower(b *testing.B, set *drivers.Set, nodes []*node.Document, atOnce int) {
	var all sync.WaitGroup
	next := make(chan *node.Document)
	for range atOnce {
		all.Go(func() {
			for n := range next {
				hw, err := set.Resolve(n)
				if err != nil {
					b.Error(err)
					continue
				}
				if state, err := hw.Power().PowerState(b.Context(), n); err != nil || state != driver.PowerOff {
					b.Errorf("%s: %q, %v", n.Name, state, err)
				}
			}
		})
	}
	for _, n := range nodes {
		next <- n
	}
	close(next)
	all.Wait()
}
