package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// wantedPart is the part of an update, as the step has found it before its first order. Later it is looked for where it was.
type wantedPart struct {
	Kind   string `json:"kind,omitempty"`
	Path   string `json:"path,omitempty"`
	Serial string `json:"serial,omitempty"`
	Was    string `json:"was,omitempty"`
	Told   int    `json:"told,omitempty"`
	Listed bool   `json:"listed,omitempty"`
}

// firmwareShown is what a component shows of its firmware.
type firmwareShown struct {
	version string
	why     string        // there is none; empty: it is not known
	several bool          // it is of an adapter with several controllers
	all     shownVersions // of an update that names no component; version is their text
}

func (s firmwareShown) String() string {
	switch {
	case s.all != nil:
		return "the versions of before"
	case s.version != "":
		return "version " + s.version
	case s.why != "":
		return "no version (" + s.why + ")"
	}
	return "version none"
}

// changed reports whether a version shows, another than before. An adapter has changed when no controller has its version of before,
// or all have the same one.
func (s firmwareShown) changed(was string) bool {
	if s.all != nil {
		return len(s.news(was)) > 0
	}
	if s.version == "" || s.version == was {
		return false
	}
	now, before := strings.Split(s.version, joint), strings.Split(was, joint)
	return !s.several || len(now) == 1 || !slices.ContainsFunc(now, func(v string) bool { return slices.Contains(before, v) })
}

// than compares what shows with what showed before the order, in words.
func (s firmwareShown) than(was string) string {
	if s.all != nil {
		return "no other version of any component than"
	}
	if s.version == was || was == "" {
		return s.String() + ", as"
	}
	return s.String() + ", and version " + was
}

// look reads the part where it was. A part that does not show is no error: adapters are gone while the machine is off, and while it starts.
func (g wantedPart) look(c *gofish.APIClient) (firmwareShown, error) {
	v := newPartSurvey(c)
	var r partResource
	at, _, member := strings.Cut(g.Path, "#")
	there, err := false, error(nil)
	if member {
		var all struct{ PowerSupplies []partResource }
		if _, err = v.get(at, &all); err == nil {
			for i, one := range all.PowerSupplies {
				if memberPath(at, i, one) == g.Path {
					r, there = one, true
				}
			}
		}
	} else {
		there, err = v.get(at, &r)
	}
	switch {
	case err != nil:
		return firmwareShown{}, err
	case !there || r.absent():
		return firmwareShown{why: "the BMC shows nothing at " + g.Path}, nil
	case g.Serial != "" && r.SerialNumber.version() != "" && r.SerialNumber.version() != g.Serial:
		return firmwareShown{why: fmt.Sprintf("the part with serial number %s is in the place of the one with %s", r.SerialNumber, g.Serial)}, nil
	}
	v.add(g.Kind, "", g.Path, r)
	if g.Listed {
		v.list[0].Current = ""
		err = v.fromInventory()
	}
	p := v.list[0]
	if p.Current != "" && p.told < g.Told {
		return firmwareShown{why: fmt.Sprintf("%d of its %d controllers show theirs", p.told, g.Told)}, err
	}
	return firmwareShown{version: p.Current, why: "the BMC tells none", several: g.Told > 1}, err
}

// targets finds the parts of a list of updates. One that the machine does not have is refused, and so is one whose version the BMC does
// not tell: rackd could not see that it was written.
func (f Firmware) targets(ctx context.Context, n *node.Document, list []update) ([]wantedPart, error) {
	o, err := f.found(ctx, n)
	if err != nil {
		return nil, err
	}
	all := make([]wantedPart, len(list))
	for i, u := range list {
		if !u.isPart() {
			continue
		}
		var of []part
		for _, p := range o.parts {
			if slices.Contains(p.forms(), u.Component) {
				of = append(of, p)
			}
		}
		switch {
		case len(of) == 0:
			return nil, invalid(n, "firmware update %d: the machine shows no component %q. It shows %s", i+1, u.Component, o.names())
		case len(of) > 1:
			return nil, invalid(n, "firmware update %d: the machine has %d components %q. It shows %s", i+1, len(of), u.Component, o.names())
		case of[0].Current == "":
			return nil, invalid(n, "firmware update %d: the BMC tells no version of component %q, so that rackd could not see whether it was written. "+
				"Versions are told of %s", i+1, u.Component, o.names())
		}
		p := of[0]
		all[i] = wantedPart{Kind: p.kind, Path: p.path, Serial: word(p.Serial).version(), Was: p.Current, Told: p.told, Listed: p.listed}
	}
	return all, nil
}

// mostNames is how many components an error names.
const mostNames = 40

// names lists the components for an error.
func (o found) names() string {
	var list []string
	for _, c := range o.components() {
		list = append(list, c.Name)
	}
	text := strings.Join(list[:min(len(list), mostNames)], ", ")
	if more := len(list) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if o.cut {
		text += ", and has more than rackd reads"
	}
	if o.off {
		text += ". It is off: many BMCs show network adapters only while it runs, for which step power.power_on serves"
	}
	return text
}

// await waits for a part that was there when the step began: the update before has restarted the machine. Nothing was ordered for it.
func (h *updating) await(t *driver.Task, doing string, u update, shows string) error {
	if h.Looks++; h.Looks < restarted {
		t.Record.Busy(fmt.Sprintf("the %s shows %s: its update is not ordered yet", u.Component, shows))
		return nil
	}
	t.Record.Idle()
	return fmt.Errorf("node %s: %s: nothing was ordered, because the %s, which showed version %s when the step began, shows %s for %.0f minutes",
		t.Node.Label(), doing, u.Component, h.Targets[h.At].Was, shows, (restarted * jobPoll).Minutes())
}
