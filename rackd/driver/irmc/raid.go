package irmc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// RAID is the RAID interface irmc. An iRMC whose Redfish service makes volumes gets Redfish's orders, and any other those of its eLCM.
type RAID struct {
	redfish.RAID
	SCCI *SCCI
}

// The stages of a step by eLCM. Each look and each order is a session of its own.
const (
	stageLook   = "look"
	stageDelete = "delete"
	stageCreate = "create"
	stagePower  = "power"
	// stageInitialise waits for the controller, with the machine on.
	stageInitialise = "initialise"
)

// building is the handle of a step by eLCM. It is saved before each order.
type building struct {
	Stage   string  `json:"stage"`
	Session session `json:"elcm_session,omitzero"`
	powered
	// Wanted is the digest of the logical disks that the step began to make.
	Wanted   string          `json:"wanted"`
	Versions profileVersions `json:"versions,omitzero"`
	// Gone are the drives to delete. Emptied: the iRMC has told that they are deleted.
	Gone    []driveRef `json:"gone,omitempty"`
	Emptied bool       `json:"emptied,omitempty"`
	// Want are the drives to make, beside Had. Made: the iRMC has told that they are made.
	Want []newDrive `json:"want,omitempty"`
	Had  []driveRef `json:"had,omitempty"`
	Made bool       `json:"made,omitempty"`
	// Lost is how many orders have left no trace.
	Lost int `json:"lost,omitempty"`
	// Since is when the wait for the initialisation began.
	Since time.Time `json:"since,omitzero"`
}

// NamedSteps lists Redfish's steps, which eLCM has as well.
func (r RAID) NamedSteps(n *node.Document) []driver.Step {
	steps := r.RAID.NamedSteps(n)
	for i, s := range steps {
		steps[i].Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) { return r.either(ctx, t, s) }
	}
	return steps
}

// either runs a step by Redfish or by eLCM. It is eLCM's if the iRMC has no Redfish service, or one that makes no volumes: it shows none,
// or it refuses the first order as one that it does not know.
func (r RAID) either(ctx context.Context, t *driver.Task, s driver.Step) (driver.Outcome, error) {
	disks, empty, err := r.Chosen(t.Node, s.Name, t.Args)
	if err != nil {
		return driver.Outcome{}, err
	}
	var h way
	if err := resume(t, s.Name, &h); err != nil {
		return driver.Outcome{}, err
	}
	if h.ELCM != nil {
		return r.byELCM(ctx, t, h.ELCM, disks, empty)
	}
	out, err := s.Run(ctx, t)
	if !errors.Is(err, driver.ErrUnsupported) {
		return out, err
	}
	if unread := resume(t, s.Name, &h); unread != nil || h.ordered() {
		return out, err
	}
	byRedfish := driver.Unnamed(t.Node, err)
	if err := checkDisks(t.Node, disks); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("RAID by eLCM", "its Redfish service makes no volumes: "+byRedfish.Error())
	out, err = r.byELCM(ctx, t, &building{Stage: stageLook}, disks, empty)
	if errors.Is(err, driver.ErrUnsupported) {
		err = fmt.Errorf("%w. By Redfish: %s", err, byRedfish)
	}
	return out, err
}

// way is the handle of a step: that of eLCM, or Redfish's own, of which it is told whether anything was ordered.
type way struct {
	ELCM  *building      `json:"elcm,omitempty"`
	Asked bool           `json:"asked,omitempty"`
	At    int            `json:"at,omitempty"`
	Made  map[string]int `json:"made,omitempty"`
}

// ordered: Redfish has carried an order out, or may have.
func (w way) ordered() bool { return w.Asked || w.At > 0 || len(w.Made) > 0 }

// byELCM brings the step forward by a look at its session, or by an order.
func (r RAID) byELCM(ctx context.Context, t *driver.Task, h *building, disks []any, empty bool) (driver.Outcome, error) {
	if err := h.keepTo(t.Node, disks); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, way{ELCM: h}) }
	if h.Stage == stagePower || h.Stage == stageInitialise {
		return r.afterwards(ctx, t, h, save)
	}
	if err := h.note(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	if waits, err := h.ready(ctx, t, r.Bringup); err != nil || waits {
		return driver.Wait(sessionEvery), err
	}
	var found *layoutOf
	over, out, err := r.SCCI.session(ctx, t, &h.Session, h.order(&found), save)
	if err != nil && !h.Session.begun() {
		err = h.failed(ctx, t, r.Bringup, err)
	}
	if err != nil || !over {
		return out, err
	}
	unseen := h.Session.Unseen
	h.Session = session{}
	if h.Stage == stageLook {
		if found != nil { // else this rackd goes on after the look of another, which it has not seen
			err = h.decide(t, *found, disks, empty)
		}
	} else {
		err = h.ordered(t.Node, unseen)
	}
	if err != nil {
		return driver.Outcome{}, h.failed(ctx, t, r.Bringup, err)
	}
	return driver.Wait(sessionPause), save(ctx)
}

// ready readies the machine for the stage. Fujitsu's own tools change logical drives of machines that are off, and refuse others.
func (h *building) ready(ctx context.Context, t *driver.Task, b bringup.Settings) (waits bool, err error) {
	switch {
	case h.Session.begun():
		return false, nil
	case t.HandsOff():
		t.Record.Idle()
		return true, nil
	case h.Stage == stageLook:
		return false, nil
	}
	if err := b.Off(ctx, t); err != nil {
		return false, fmt.Errorf("switch the machine off, so that the iRMC changes its logical drives: %w", err)
	}
	return false, nil
}

// order is what the stage asks of the iRMC. A look leaves what it has found.
func (h *building) order(found **layoutOf) order {
	put := func(doing string, body func() ([]byte, error)) order {
		return order{doing: doing, profile: raidProfile, looks: true, give: func(e elcm) (string, error) {
			raw, err := body()
			if err != nil {
				return "", err
			}
			return e.putRAID(raw)
		}}
	}
	switch h.Stage {
	case stageDelete:
		return put("delete logical drives", func() ([]byte, error) { return deletion(h.Versions, h.Gone) })
	case stageCreate:
		return put("make logical drives", func() ([]byte, error) { return creation(h.Versions, h.Want) })
	}
	return order{doing: "read the logical drives", profile: raidProfile,
		give: func(e elcm) (string, error) { return e.obtain(raidPath) },
		done: func(e elcm) (bool, error) {
			var raw json.RawMessage
			if err := e.stored(raidProfile, &raw); err != nil {
				return false, err
			}
			l, err := readLayout(raw, e.clean)
			*found = &l
			return true, err
		}}
}

// ordered notes the end of an order. Whether it had its effect the next look shows.
func (h *building) ordered(n *node.Document, unseen bool) error {
	if unseen {
		if h.Lost++; h.Lost >= mostLost {
			return lostOrders(n, "change the logical drives", h.Lost)
		}
	}
	switch h.Stage {
	case stageDelete:
		h.Emptied = !unseen
	case stageCreate:
		h.Made = !unseen
	}
	h.Stage = stageLook
	return nil
}

// decide compares what the iRMC shows with what is wanted, and says what comes next.
func (h *building) decide(t *driver.Task, l layoutOf, disks []any, empty bool) error {
	drives := l.drives()
	if id := l.lacks(h.Gone); id != "" {
		return fmt.Errorf("node %s: delete logical drives: the iRMC no longer shows the controller %s, so that "+
			"it is not known whether its drives are deleted: look at the iRMC's log, then repeat the request", t.Node.Label(), id)
	}
	switch {
	case len(h.Want) > 0:
		return h.compare(t, l, disks)
	case h.Emptied && len(drives) > 0:
		return fmt.Errorf("node %s: delete logical drives: the session has ended well, and the iRMC still shows %s. "+
			"Nothing is reported as deleted: look at the iRMC's log, then repeat the request", t.Node.Label(), named(drives))
	case empty && !h.Emptied && len(drives) > 0:
		h.Stage, h.Gone, h.Versions = stageDelete, drives, l.versions
		return nil
	case len(disks) == 0:
		return h.over(t, l, disks, nil)
	}
	want, err := l.plan(disks)
	if err != nil {
		return fmt.Errorf("node %s: make logical drives: %w", t.Node.Label(), err)
	}
	h.Stage, h.Want, h.Had, h.Versions = stageCreate, want, drives, l.versions
	return nil
}

// compare holds the drives that are new against those that were asked for. Each is to be another of these.
func (h *building) compare(t *driver.Task, l layoutOf, disks []any) error {
	var fresh []driveRef
	var differs [][]string // of each new drive, from each that was asked for
	for _, a := range l.adapters {
		for _, d := range a.LogicalDrives.LogicalDrive {
			if ref := (driveRef{a.ID, d.Number}); !slices.Contains(h.Had, ref) {
				fresh = append(fresh, ref)
				row := make([]string, len(h.Want))
				for i, w := range h.Want {
					row[i] = w.differs(a, d)
				}
				differs = append(differs, row)
			}
		}
	}
	owner := pair(len(h.Want), len(fresh), func(want, is int) bool { return differs[is][want] == "" })
	made := map[driveRef]int{}
	var wrong []string
	for i, is := range owner {
		if is < 0 {
			wrong = append(wrong, fmt.Sprintf("logical disk %d is not there", i+1))
			continue
		}
		made[fresh[is]] = i
	}
	switch {
	case len(made) == len(h.Want) && len(made) == len(fresh):
		return h.over(t, l, disks, made)
	case len(fresh) == 0 && !h.Made: // the order that was lost has not been taken
		h.Stage = stageCreate
		return nil
	}
	for is, ref := range fresh {
		if _, ours := made[ref]; ours {
			continue
		}
		why := "no such drive was asked for"
		if open := slices.Index(owner, -1); open >= 0 {
			why = fmt.Sprintf("from logical disk %d it differs so: %s", open+1, differs[is][open])
		}
		wrong = append(wrong, named([]driveRef{ref})+" is not as requested, "+why)
	}
	return fmt.Errorf("node %s: make logical drives: the iRMC has ended its session, and %s. "+
		"Nothing is reported as made: look at the iRMC's log, delete what is wrong, then repeat the request",
		t.Node.Label(), strings.Join(wrong, "; "))
}

// pair gives each of the wanted one of those that there are, where that is possible, -1 where not.
func pair(wanted, there int, fits func(want, is int) bool) (owner []int) {
	owner, taken := make([]int, wanted), make([]int, there)
	for i := range owner {
		owner[i] = -1
	}
	for i := range taken {
		taken[i] = -1
	}
	var place func(want int, tried []bool) bool
	place = func(want int, tried []bool) bool {
		for is := range there {
			if tried[is] || !fits(want, is) {
				continue
			}
			tried[is] = true
			if taken[is] < 0 || place(taken[is], tried) {
				owner[want], taken[is] = is, want
				return true
			}
		}
		return false
	}
	for want := range wanted {
		place(want, make([]bool, there))
	}
	return owner
}

// over tells what the iRMC shows, and that nothing is left but the machine's power.
func (h *building) over(t *driver.Task, l layoutOf, disks []any, made map[driveRef]int) error {
	t.Record.Observe(hardware.Observation{RAID: l.shown(disks, made)})
	h.Stage = stagePower
	return nil
}

// keepTo fails if the step has begun with other disks.
func (h *building) keepTo(n *node.Document, disks []any) error {
	text, err := json.Marshal(disks)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	wanted := hex.EncodeToString(sum[:16])
	if h.Wanted != "" && h.Wanted != wanted {
		return fmt.Errorf("node %s: its target_raid_config was changed while the iRMC made the logical drives of the one before: "+
			"see which drives there are, then send the request again: %w", n.Label(), driver.ErrInvalid)
	}
	h.Wanted = wanted
	return nil
}

// named lists drives for people.
func named(list []driveRef) string {
	const most = 20
	var names []string
	for _, d := range list[:min(most, len(list))] {
		names = append(names, fmt.Sprintf("logical drive %s of %s", d.Number, d.Adapter))
	}
	if len(list) > most {
		names = append(names, fmt.Sprintf("%d more", len(list)-most))
	}
	return strings.Join(names, ", ")
}
