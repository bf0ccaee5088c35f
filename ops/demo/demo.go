// Package demo shows the product at work: two virtual machines, one with UEFI and
// one with a BIOS, go from powered off to running a system that was just written to
// their disks.
//
// It may import ops and protocol. It prints for people; what it does is what
// any operator would do through the API.
package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/ops/rack"
	"github.com/ironyard/ironyard/ops/virtual/ipmisim"
	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/bus"
	"github.com/ironyard/ironyard/protocol/provision"
)

// Limit bounds the demo from the first request to the last console line.
const Limit = 8 * time.Minute

// Marker is the line an instance prints when it is up.
var Marker = regexp.MustCompile(`IRONYARD-INSTANCE-UP .*`)

// Demo is one run.
type Demo struct {
	Rack  *rack.Rack
	Image operator.Image
	Out   io.Writer
	TTY   bool
}

// Run deploys every machine of the rack side by side and returns nil once each
// instance has said on its console that it is up.
func (d Demo) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Limit, fmt.Errorf("the demo was not done within %s", Limit))
	defer cancel()
	var names []string
	for _, m := range d.Rack.Lab.Machines {
		names = append(names, m.Name)
	}
	t := newTimeline(d.Out, d.TTY, names)
	ids := map[string]string{} // node → machine
	for _, n := range names {
		m, bmc, err := d.enrolment(n)
		if err != nil {
			return err
		}
		id, err := d.Rack.Operator.Enrol(ctx, m)
		if err != nil {
			return err
		}
		ids[id] = n
		t.add(n, "enrolled", fmt.Sprintf("node %s, driver %s, BMC %s", id, m.Driver, bmc))
	}
	stop, err := d.follow(ctx, t, ids)
	if err != nil {
		return err
	}
	defer stop()
	consoles := make([]string, len(names))
	g, ctx := errgroup.WithContext(ctx)
	for id, name := range ids {
		g.Go(func() error {
			line, err := d.deploy(ctx, t, id, name)
			for i, n := range names {
				if n == name {
					consoles[i] = line
				}
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	t.table()
	fmt.Fprintln(d.Out, "\nWhat the instances print on their consoles:")
	for i, n := range names {
		fmt.Fprintf(d.Out, "  %-8s %s\n", n, consoles[i])
	}
	return nil
}

// enrolment is how a machine of the rack is enrolled, and where its BMC is: by IPMI where it has a BMC of that, else by Redfish.
func (d Demo) enrolment(name string) (m operator.Machine, bmc string, err error) {
	if m, err = d.Rack.Enrolment(name); err != nil {
		return m, "", err
	}
	machine, err := d.Rack.Machine(name)
	if err != nil {
		return m, "", err
	}
	at := ipmisim.Described(machine)
	if !at.IsValid() {
		return m, fmt.Sprint(m.DriverInfo["redfish_address"]), nil
	}
	m.Driver = "ipmi"
	maps.DeleteFunc(m.DriverInfo, func(field string, _ any) bool { return strings.HasPrefix(field, "redfish_") })
	maps.Copy(m.DriverInfo, ipmisim.DriverInfo(machine, at))
	return m, at.String(), nil
}

func (d Demo) deploy(ctx context.Context, t *timeline, id, name string) (string, error) {
	o := d.Rack.Operator
	if err := o.MakeAvailable(ctx, id); err != nil {
		return "", err
	}
	t.add(name, "available", "powered off, nothing on its disk")
	if err := o.SetImage(ctx, id, d.Image); err != nil {
		return "", err
	}
	console, err := d.Rack.Serial(name, 0)
	if err != nil {
		return "", err
	}
	drive := map[string]any{"meta_data": map[string]any{"hostname": name + ".example"}}
	if err := o.Ask(ctx, id, "active", drive); err != nil {
		return "", err
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		return "", err
	}
	t.progress(name, "")
	t.add(name, "active", "the node is deployed and its instance boots")
	line, err := console.Wait(ctx, Marker)
	if err != nil {
		return "", fmt.Errorf("machine %s: no sign of the instance on its console (%s): %w", name, console.Path(), err)
	}
	line = Marker.FindString(line)
	t.add(name, "instance up", line)
	return line, nil
}

// follow shows the rack's events and the progress of writes while they happen.
func (d Demo) follow(ctx context.Context, t *timeline, ids map[string]string) (stop func(), err error) {
	nc := d.Rack.Stack.Conn
	events, err := nc.Subscribe("EVENTS.>", func(m *nats.Msg) {
		e, err := bus.ReadEvent(m.Subject, m.Data)
		if err != nil || ids[e.Node] == "" {
			return
		}
		for _, l := range e.Lines() {
			t.add(ids[e.Node], l.Phase, l.Detail)
		}
	})
	if err != nil {
		return nil, err
	}
	works, err := nc.Subscribe("$KV."+bus.WorkBucket+".>", func(m *nats.Msg) {
		var p agentapi.Progress
		w, err := bus.ReadWork(strings.TrimPrefix(m.Subject, "$KV."+bus.WorkBucket+"."), m.Data)
		if err != nil || ids[w.Node] == "" || len(w.Checkpoint.Progress) == 0 || json.Unmarshal(w.Checkpoint.Progress, &p) != nil {
			return
		}
		t.progress(ids[w.Node], describe(p))
	})
	if err != nil {
		return nil, err
	}
	return func() { events.Unsubscribe(); works.Unsubscribe() }, nc.Flush()
}

func describe(p agentapi.Progress) string {
	if p.TotalBytes > 0 {
		return fmt.Sprintf("writes %3.0f %% at %.0f MB/s", 100*float64(p.DoneBytes)/float64(p.TotalBytes), p.MBPerSec)
	}
	return fmt.Sprintf("writes %.0f MB at %.0f MB/s", float64(p.DoneBytes)/1e6, p.MBPerSec)
}
