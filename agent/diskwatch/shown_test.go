package diskwatch

import (
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Which disks count as gone: the looks of before, what is there, and the names that the error has.
func TestWhichDisksHaveLeft(t *testing.T) {
	disk := func(name, serial, wwn string) agentapi.Disk {
		return agentapi.Disk{Name: name, Serial: serial, WWN: wwn, Size: 10}
	}
	stick := disk("sds", "S", "")
	stick.Removable = true
	type look = []agentapi.Disk
	for name, c := range map[string]struct {
		before []look
		there  look
		unfit  look
		want   string // the names, empty: none is gone
	}{
		"none":                              {before: []look{{disk("sda", "A", "")}}, there: look{disk("sda", "A", "")}},
		"another name of the kernel":        {before: []look{{disk("sda", "A", "0x1")}}, there: look{disk("sdz", "A", "0x1")}},
		"one of two":                        {before: []look{{disk("sda", "A", ""), disk("sdb", "B", "")}}, there: look{disk("sda", "A", "")}, want: "sdb"},
		"one that came between":             {before: []look{{}, {disk("sda", "A", "")}, {}}, there: look{}, want: "sda"},
		"another disk has its name":         {before: []look{{disk("sda", "A", "")}}, there: look{disk("sda", "B", "")}, want: "sda"},
		"a stick":                           {before: []look{{stick}}},
		"a path of two":                     {before: []look{{disk("sda", "A", "0x1"), disk("sdb", "A", "0x1")}}, there: look{disk("sdb", "A", "0x1")}},
		"both paths":                        {before: []look{{disk("sda", "A", "0x1"), disk("sdb", "A", "0x1")}}, want: "sdb"},
		"one of two with the same WWN":      {before: []look{{disk("sda", "A", "0x1"), disk("sdb", "B", "0x1")}}, there: look{disk("sdb", "B", "0x1")}, want: "sda"},
		"it has failed and is of size 0":    {before: []look{{disk("sda", "A", "")}}, unfit: look{{Name: "sda", Serial: "A"}}},
		"its serial number comes late":      {before: []look{{disk("sda", "", "")}}, there: look{disk("sda", "A", "")}},
		"and then it leaves":                {before: []look{{disk("sda", "", "")}, {disk("sda", "A", "")}}, want: "sda"},
		"its WWN comes late":                {before: []look{{disk("sda", "A", "")}, {disk("sda", "A", "0x1")}}, there: look{disk("sda", "A", "0x1")}},
		"its serial number is not told now": {before: []look{{disk("sda", "A", "0x1")}, {disk("sda", "", "0x1")}}, there: look{disk("sda", "B", "0x1")}, want: "sda"},
		"one of two without any name":       {before: []look{{disk("sda", "", ""), disk("sdb", "", "")}}, there: look{disk("sda", "", "")}, want: "sda,sdb"},
		"one without beside one with":       {before: []look{{disk("sda", "A", ""), disk("sdb", "", "")}}, there: look{disk("sda", "A", "")}, want: "sdb"},
	} {
		var s shown
		for _, l := range c.before {
			s.note(l)
		}
		var unfit []agentapi.UnfitDisk
		for _, d := range c.unfit {
			unfit = append(unfit, agentapi.UnfitDisk{Disk: d, Why: "of size 0"})
		}
		var names []string
		if err := s.left(c.there, unfit); err != nil {
			left, _ := err.(*LeftError)
			if left == nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, d := range left.Left {
				names = append(names, d.Name)
				if !strings.Contains(err.Error(), d.Name) {
					t.Errorf("%s: the error does not name %s: %v", name, d.Name, err)
				}
			}
		}
		if got := strings.Join(names, ","); got != c.want {
			t.Errorf("%s: %q are gone, want %q", name, got, c.want)
		}
	}
}
