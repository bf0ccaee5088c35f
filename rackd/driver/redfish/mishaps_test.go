package redfish

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// longOrder is a step whose order a BMC works on for a while, and must get once.
type longOrder struct {
	name string
	args map[string]any
	old  bool // there is a volume
}

// patient is the pause before a step is run again, in requests that a BMC drops while it starts: fewer than a step's retries.
const patient = 3

// Each request of a firmware update, and of the making and deletion of volumes, comes to grief in each way. A BMC that starts again is away
// for some requests, as after its own new firmware. The order is given once. What ends well has been read back. What does not says that
// the outcome is not known, or that nothing was done.
func TestEachRequestOfALongOrder(t *testing.T) {
	t.Parallel()
	for _, o := range []longOrder{{"update", biosOnly, false}, {"update_firmware", imagesWith("1"), false}, {"create_configuration", map[string]any{}, false}, {"delete_configuration", map[string]any{}, true}} {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			most, orders, err := o.run(t, drivertest.Sound, 0)
			if err != nil || orders != 1 || most < 8 {
				t.Fatalf("where all goes well: %d requests, %d orders, %v", most, orders, err)
			}
			ended := map[bool]int{}
			for _, how := range []drivertest.Mishap{drivertest.Late, drivertest.Lost, drivertest.Half, drivertest.Twice, drivertest.Dropped, drivertest.Reset} {
				for at := 1; at <= most; at++ {
					_, orders, err := o.run(t, how, at)
					what := fmt.Sprintf("mishap %d of request %d of %d", how, at, most)
					ended[err == nil]++
					switch {
					case orders > 1:
						t.Errorf("%s: the BMC got %d orders", what, orders)
					case err == nil && orders == 0:
						t.Errorf("%s: it is told as done, and the BMC got no order", what)
					case err != nil && how == drivertest.Late:
						t.Errorf("%s: %v", what, err)
					case err != nil && !strings.Contains(err.Error(), "it is not known whether"):
						t.Errorf("%s, %d orders: %v", what, orders, err)
					case errors.Is(err, driver.ErrUnknown) || errors.Is(err, driver.ErrUnreachable):
						t.Errorf("%s: %v: it would be given again", what, err)
					}
				}
			}
			t.Logf("%d requests: %d ends were good, and %d not known", most, ended[true], ended[false])
			if ended[false] > most/2 {
				t.Errorf("%d of %d ends are not known", ended[false], ended[true]+ended[false])
			}
		})
	}
}

// run runs the step to its end, on a BMC that lists its tasks.
func (o longOrder) run(t *testing.T, how drivertest.Mishap, at int) (requests, orders int, err error) {
	t.Helper()
	k := &doubtful{rack: newRack(), lists: true}
	if o.old {
		k.volumes[volumesAt+"/9"] = map[string]any{"@odata.id": volumesAt + "/9", "Id": "9", "RAIDType": "RAID1", "CapacityBytes": int64(100) << 30}
	}
	e, d, r := newEmulator(t), newDriver(t, Options{}), drivertest.NewRig()
	defer e.Server.Close()
	e.set(func() { e.hook = k.serve })
	e.spoiler.Restart, e.spoiler.Away = func() { e.set(func() { clear(e.sessions) }) }, patient
	r.Node.DriverInfo = e.node(nil).DriverInfo
	r.Node.TargetRAID = disksOf(map[string]any{"raid_level": "1", "size_gb": 100.0})
	steps := append(RAID{Driver: d}.NamedSteps(r.Node), append(Firmware{Driver: d}.NamedSteps(r.Node), imageStep(t, d))...)
	e.spoiler.Spoil(how, at)
	err = tried(t, r, stepNamed(t, steps, o.name), o.args)
	requests = e.spoiler.Asked()
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return requests, len(k.writes), err
}
