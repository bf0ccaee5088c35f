package audit

import (
	"net/http"
	"testing"

	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
)

func write(work, epoch string) journal.Record {
	return journal.Record{Kind: journal.BMCWrite, Work: work, Epoch: epoch, Detail: "PATCH /redfish/v1/Systems/1"}
}

func reset(work, epoch string) journal.Record {
	return journal.Record{Kind: journal.BMCWrite, Work: work, Epoch: epoch, Detail: "POST …/ComputerSystem.Reset"}
}

func command(work, epoch string) journal.Record {
	return journal.Record{Kind: journal.CommandAsked, Work: work, Epoch: epoch, Detail: "standby.sync"}
}

// refused is a conditional write that came too late.
func refused(work, epoch string) journal.Record {
	r := write(work, epoch)
	r.Status = http.StatusPreconditionFailed
	return r
}

func of(kind journal.Kind, work string) journal.Record {
	return journal.Record{Kind: kind, Work: work, Image: "i"}
}

var (
	cut    = journal.Record{Kind: journal.PowerOff, Detail: journal.ByBMC}
	glitch = journal.Record{Kind: journal.Reset, Detail: "by a glitch of its power"}
)

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		records []journal.Record
		want    []Rule
	}{
		"a deploy, taken over, then a clean": {[]journal.Record{write("d", "1"), command("d", "1"), of(journal.WriteBegun, "d"), command("d", "2"),
			of(journal.WriteEnded, "d"), write("d", "2"), write("", "0"), write("c", "1"), command("c", "1")}, nil},
		"the old owner writes on":           {[]journal.Record{write("d", "1"), write("d", "2"), write("d", "1"), write("d", "2")}, []Rule{Epoch}},
		"the old owner commands on":         {[]journal.Record{command("d", "2"), command("d", "1")}, []Rule{Epoch}},
		"an old work writes on":             {[]journal.Record{write("d", "1"), write("c", "2"), command("d", "3"), write("c", "2")}, []Rule{Zombie}},
		"a late write that the BMC refuses": {[]journal.Record{write("d", "1"), write("c", "2"), refused("d", "1"), write("c", "2")}, nil},
		"no epoch":                          {[]journal.Record{write("d", "")}, []Rule{Epoch}},
		"a command of nobody":               {[]journal.Record{command("", "0")}, []Rule{Anonymous}},
		"written twice":                     {[]journal.Record{of(journal.WriteBegun, "d"), of(journal.WriteEnded, "d"), of(journal.WriteBegun, "d")}, []Rule{Twice}},
		"begun twice":                       {[]journal.Record{of(journal.WriteBegun, "d"), of(journal.WriteBegun, "d")}, []Rule{Twice}},
		"written for two works":             {[]journal.Record{of(journal.WriteBegun, "d"), of(journal.WriteEnded, "d"), of(journal.WriteBegun, "e")}, nil},
		"torn by a glitch, again":           {[]journal.Record{reset("d", "1"), of(journal.WriteBegun, "d"), glitch, of(journal.WriteTorn, "d"), of(journal.WriteBegun, "d")}, nil},
		"torn by its own work":              {[]journal.Record{of(journal.WriteBegun, "d"), reset("d", "1"), cut, of(journal.WriteTorn, "d")}, []Rule{Own}},
		"torn by an undeploy":               {[]journal.Record{of(journal.WriteBegun, "d"), reset("u", "2"), cut, of(journal.WriteTorn, "d")}, nil},
		"what the machine itself noted":     {[]journal.Record{{Kind: journal.Violation, Detail: "x"}}, []Rule{Machine}},
	} {
		for i := range c.records {
			c.records[i].Machine, c.records[i].Seq = "m", uint64(i+1)
		}
		found := Check(c.records)
		if len(found) != len(c.want) {
			t.Errorf("%s: %v, want %v", name, found, c.want)
			continue
		}
		for i, f := range found {
			if f.Rule != c.want[i] || f.Machine != "m" {
				t.Errorf("%s: %v, want %v", name, f, c.want[i])
			}
		}
	}
}

func TestMachinesAreJudgedApart(t *testing.T) {
	a, b := write("d", "2"), write("d", "1")
	a.Machine, b.Machine = "a", "b"
	if found := Check([]journal.Record{a, b}); len(found) != 0 {
		t.Errorf("%v", found)
	}
}
