package mediaboot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

var _ driver.ParametersMaker = Interface{}

// told is work on a node with an image of its own, which is to be told its parameters. The rackd that serves it dies then.
func told(t *testing.T, types ...string) (*driver.Task, *bmc, *server) {
	t.Helper()
	_, k, b, s := instanceTask(t, nil, "", types...)
	s.alive = false
	k.Node.DriverInfo = map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: "true", ownramdisk.ParamsField: "ipa-debug=1"}
	return k, b, s
}

const parameters = "http://192.0.2.5:8080/media/5f0c/told%d/parameters.img"

// The second medium goes in before the image, at a new address for each boot, and no way out leaves it. What others have put in stays.
func TestParametersOnASecondMedium(t *testing.T) {
	i := VirtualMedia(fine)
	for name, end := range map[string]func(context.Context, *driver.Task) error{"ramdisk": i.CleanUpRamdisk, "instance": i.PrepareInstance, "undeploy": i.CleanUpInstance} {
		for _, types := range [][]string{{"CD/DVD", "USBStick"}, {"CD/DVD", "Floppy"}} {
			k, b, s := told(t, types...)
			kind := map[string]string{"USBStick": "disk", "Floppy": "floppy"}[types[1]]
			for n := range 2 {
				b.writes = nil
				if err := i.PrepareRamdisk(t.Context(), k); err != nil {
					t.Fatal(err)
				}
				at := fmt.Sprintf(parameters, n+1)
				if b.in[0] != ramdiskISO || b.in[1] != at || s.told != n+1 || s.published != 0 {
					t.Errorf("%s, boot %d: the drives hold %v, published %d and %d", name, n, b.in, s.told, s.published)
				}
				if n == 0 && !slices.Equal(b.writes, []string{"insert " + kind + " " + at, "insert cdrom " + ramdiskISO}) {
					t.Errorf("%s: writes %q", name, b.writes)
				}
			}
			if got := fmt.Sprint(k.Facts); strings.Contains(got, "told") {
				t.Errorf("the code of a medium stands in the facts: %s", got)
			}
			if !i.Deserted(k) {
				t.Error("the rackd has gone, and its medium has not")
			}
			delete(k.Node.DriverInfo, fieldRemovable) // an operator may: what was put in goes all the same
			if err := end(t.Context(), k); err != nil || b.in[1] != "" || i.Deserted(k) {
				t.Errorf("%s: the drives hold %v at the end, %v", name, b.in, err)
			}
			if !s.withdrawn && name != "undeploy" {
				t.Errorf("%s: its address answers on", name)
			}
			b.in[1] = "http://o/tools.img"
			k.Node.DriverInfo[fieldRemovable] = "true"
			if err := end(t.Context(), k); err != nil || b.in[1] != "http://o/tools.img" {
				t.Errorf("%s: of an operator's medium the drives hold %v, %v", name, b.in, err)
			}
		}
	}
}

// The owner of the flow may die before it has noted what is in the drive.
func TestParametersOfAPredecessorAreTakenOut(t *testing.T) {
	k, b, _ := told(t, "CD", "USBStick")
	b.in[1] = "http://192.0.2.4:8080/media/" + k.Node.UUID + "/secret/parameters.img"
	if err := VirtualMedia(fine).CleanUpRamdisk(t.Context(), k); err != nil || b.in[1] != "" {
		t.Errorf("the drives hold %v, %v", b.in, err)
	}
}

// What is in the better drive stays where another is empty. It gives way where none is.
func TestParametersBesideOtherMedia(t *testing.T) {
	const tools, more = "http://o/tools.img", "http://o/more.img"
	for name, c := range map[string]struct{ before, after map[int]string }{
		"the stick is full": {map[int]string{1: tools}, map[int]string{0: ramdiskISO, 1: tools, 2: fmt.Sprintf(parameters, 1)}},
		"both are full":     {map[int]string{1: tools, 2: more}, map[int]string{0: ramdiskISO, 1: fmt.Sprintf(parameters, 1), 2: more}},
	} {
		k, b, _ := told(t, "CD", "USBStick", "Floppy")
		b.in = c.before
		if err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k); err != nil || !maps.Equal(b.in, c.after) {
			t.Errorf("%s: the drives hold %v, want %v, %v", name, b.in, c.after, err)
		}
	}
}

// A BMC with two drives of all types has room for both media. What others have put in gives way, and not the parameters.
func TestParametersBesideAFullDrive(t *testing.T) {
	for _, full := range []map[int]string{{}, {0: "http://o/tools.iso"}, {1: "http://o/tools.iso"}} {
		k, b, _ := told(t, "CD/USBStick", "CD/USBStick")
		maps.Copy(b.in, full)
		err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k)
		if is, want := slices.Sorted(maps.Values(b.in)), slices.Sorted(slices.Values([]string{ramdiskISO, fmt.Sprintf(parameters, 1)})); err != nil || !slices.Equal(is, want) {
			t.Errorf("%v: %v, the drives hold %v", full, err, b.in)
		}
	}
}

// An operator may withdraw the field while the ramdisk runs, of a rescue for one. Another work ends it, which knows nothing of the medium.
func TestParametersThatAreNotAskedForAnyMore(t *testing.T) {
	i := VirtualMedia(fine)
	for name, end := range map[string]func(context.Context, *driver.Task) error{"ramdisk": i.CleanUpRamdisk, "instance": i.PrepareInstance, "undeploy": i.CleanUpInstance} {
		k, b, _ := told(t, "CD", "USBStick")
		if err := i.PrepareRamdisk(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		clear(k.Facts)
		delete(k.Node.DriverInfo, fieldRemovable)
		if err := end(t.Context(), k); err != nil || b.in[1] != "" {
			t.Errorf("%s: the drives hold %v, %v", name, b.in, err)
		}
	}
}

// A machine whose second medium is pulled waits for it in vain. It may have read the medium before.
func TestParametersAreMissed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bmc)
		says   string
	}{
		"all is well":         {func(*bmc) {}, ""},
		"pulled":              {func(b *bmc) { delete(b.in, 1) }, "the parameters of the ramdisk was taken out at the BMC, whose virtual drives for it are: USBStick (empty)"},
		"unreadable":          {func(b *bmc) { b.problem = "404" }, "virtual drive USBStick, and that the machine cannot read it: 404"},
		"under another name":  {func(b *bmc) { b.in[1] = "/dev/shm/image" }, ""},
		"the CD pulled, too":  {func(b *bmc) { clear(b.in) }, "the medium was taken out at the BMC, whose virtual drives are: CD (empty)"},
		"another drive empty": {func(b *bmc) { b.types = append(b.types, "Floppy") }, ""},
	} {
		k, b, _ := told(t, "CD", "USBStick")
		i := VirtualMedia(fine)
		if err := i.PrepareRamdisk(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		c.change(b)
		lack, err := i.MediumLack(t.Context(), k)
		if err != nil || lack.Sure || !strings.Contains(lack.Why, c.says) || (lack.Why == "") != (c.says == "") {
			t.Errorf("%s: %+v, %v", name, lack, err)
		}
		if err := i.CleanUpRamdisk(t.Context(), k); err != nil { // the machine is started again, with another
			t.Fatal(err)
		}
		if lack, err = i.MediumLack(t.Context(), k); err != nil || strings.Contains(lack.Why, "parameters") {
			t.Errorf("%s, after it was taken out: %+v, %v", name, lack, err)
		}
	}
}

// A machine without a second drive is not touched.
func TestNoDriveForParameters(t *testing.T) {
	for _, types := range [][]string{{"CD/DVD"}, {"CD/USBStick"}} {
		k, b, s := told(t, types...)
		err := VirtualMedia(fine).PrepareRamdisk(t.Context(), k)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), fieldRemovable) || !strings.Contains(err.Error(), "its drives are: "+types[0]) {
			t.Errorf("%v: %v", types, err)
		}
		if len(b.writes) != 0 || s.told != 0 || k.Facts[driver.FactBoot] != "" {
			t.Errorf("%v: writes %q", types, b.writes)
		}
	}
}

// The ramdisk in the node's own image alone is told, by the flows that boot that image.
func TestWhoIsToldParameters(t *testing.T) {
	for name, c := range map[string]struct {
		info  map[string]any
		by    Interface
		state string
		tells bool
	}{
		"its image":             {info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: true, ownramdisk.ParamsField: "ipa-debug=1"}, by: VirtualMedia(fine), tells: true},
		"not asked":             {info: map[string]any{ownramdisk.ImageField: ramdiskISO}, by: VirtualMedia(fine)},
		"by HTTP":               {info: map[string]any{ownramdisk.ImageField: ramdiskISO, fieldRemovable: true}, by: HTTPBoot(fine)},
		"an image of rackd's":   {info: map[string]any{fieldRescue: ramdiskISO, fieldRemovable: true}, by: VirtualMedia(fine)},
		"a rescue by its image": {info: map[string]any{fieldRescue: ramdiskISO, fieldRemovable: true, ownramdisk.ParamsField: "ipa-debug=1"}, by: VirtualMedia(fine), state: "rescuing", tells: true},
	} {
		n := &node.Document{UUID: "u", DriverInfo: c.info}
		n.State = "deploying"
		if c.state != "" {
			n.State = "rescuing"
		}
		l, tells := c.by.Parameters(n)
		if tells != c.tells || tells && !slices.Equal(l.Params, []string{"ipa-debug=1"}) {
			t.Errorf("%s: %v, %t", name, l, tells)
		}
	}
}
