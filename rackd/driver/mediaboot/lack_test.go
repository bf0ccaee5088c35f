package mediaboot

import (
	"context"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// watched is a BMC that shows drives as it is told, and how far the machine's start has come.
type watched struct {
	rewriting
	drives *[]hardware.Media
	far    driver.Start
}

func (w watched) Media(context.Context, *node.Document) ([]hardware.Media, error) {
	return *w.drives, nil
}
func (w watched) AttachMedia(_ context.Context, f driver.Fence, _ *node.Document, _, url string) error {
	for i := range *w.drives {
		if (*w.drives)[i].Image == "hidden" {
			(*w.drives)[i].Inserted = true
			return f.Check()
		}
	}
	(*w.drives)[0].Image, (*w.drives)[0].Inserted = url, true
	return f.Check()
}
func (w watched) Start(context.Context, *node.Document) (driver.Start, error) { return w.far, nil }

// What speaks against a boot is what the BMC shows, and what was read of the medium here.
func TestMediumLack(t *testing.T) {
	half, whole := driver.Reading{Known: true, Bytes: 50, Needs: 100}, driver.Reading{Known: true, Bytes: 120, Needs: 100}
	empty := func(d []hardware.Media) { d[0] = hardware.Media{Types: d[0].Types} }
	for name, c := range map[string]struct {
		drives  []hardware.Media // before the insertion
		change  func([]hardware.Media)
		reading driver.Reading
		far     driver.Start
		info    map[string]any
		looks   int
		says    string
		sure    bool
	}{
		"all is well":                {reading: half, far: driver.PastFirmware},
		"pulled in the load":         {reading: half, change: empty, says: "taken out at the BMC, whose virtual drives are: CD/DVD (empty)", sure: true},
		"pulled before":              {reading: driver.Reading{Known: true}, change: empty, says: "taken out", sure: true},
		"pulled after it was read":   {reading: whole, change: empty, says: "taken out"},
		"pulled, by another rackd":   {change: empty, says: "taken out"},
		"an image of the node's own": {info: map[string]any{"deploy_iso": "http://192.0.2.9/i.iso"}, reading: half, change: empty, says: "taken out"},
		"replaced": {reading: half, change: func(d []hardware.Media) { d[0].Image = "http://192.0.2.9/other" },
			says: "CD/DVD (another image)", sure: true},
		"unreadable":                          {reading: half, change: func(d []hardware.Media) { d[0].Problem = "404" }, says: "cannot read it: 404", sure: true},
		"unreadable after it was read":        {reading: whole, change: func(d []hardware.Media) { d[0].Problem = "404" }, says: "cannot read it: 404"},
		"not asked for":                       {reading: driver.Reading{Known: true}, far: driver.PastFirmware, looks: 2, says: "has not asked this rackd for a byte", sure: true},
		"not asked for, at the first look":    {reading: driver.Reading{Known: true}, far: driver.PastFirmware},
		"not asked for, in firmware":          {reading: driver.Reading{Known: true}, far: driver.InFirmware, looks: 2},
		"not asked for, since a restart":      {far: driver.PastFirmware, looks: 2, says: "this rackd was away"},
		"read no more, since a restart":       {reading: driver.Reading{Bytes: 7, Needs: 100}, looks: 2, says: "this rackd was away"},
		"since a restart, in firmware":        {far: driver.InFirmware, looks: 2},
		"since a restart, at the first look":  {reading: driver.Reading{Bytes: 7, Needs: 100}},
		"not asked for, at a balancer":        {info: map[string]any{fieldExternal: "http://192.0.2.9"}, far: driver.PastFirmware, looks: 2},
		"two drives with hidden names":        {drives: []hardware.Media{{Types: []string{"CD"}, Image: "hidden"}, {Types: []string{"DVD"}, Image: "x", Inserted: true}}, reading: half},
		"two drives with hidden names, empty": {drives: []hardware.Media{{Types: []string{"CD"}, Image: "hidden"}, {Types: []string{"DVD"}, Image: "x", Inserted: true}}, reading: half, change: func(d []hardware.Media) { empty(d); empty(d[1:]) }, says: "taken out", sure: true},
	} {
		t.Run(name, func(t *testing.T) {
			k := task(t, &node.Document{UUID: "u", DriverInfo: c.info})
			s := &server{reading: c.reading, alive: true}
			k.Media = s
			drives := c.drives
			if drives == nil {
				drives = []hardware.Media{{Types: []string{"CD", "DVD"}}}
			}
			m := k.Hardware.Management()
			k.Hardware = withManagement(t, k, watched{rewriting{m: m.(driver.VirtualMedia), Management: m}, &drives, c.far})
			i := VirtualMedia(fine)
			if err := i.PrepareRamdisk(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(drives)
			}
			var got driver.Lack
			for range max(c.looks, 1) {
				var err error
				if got, err = i.MediumLack(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			}
			if (got.Why != "") != (c.says != "") || !strings.Contains(got.Why, c.says) || got.Sure != c.sure {
				t.Errorf("%+v, want %q, sure %t", got, c.says, c.sure)
			}
			if strings.Contains(got.Why, "://") {
				t.Errorf("it tells an address: %q", got.Why)
			}
		})
	}
}
