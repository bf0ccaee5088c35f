package ilo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Drives behind a Smart Array are erased by its controller: iLO 5 stages the order, the controller begins it when the machine starts, and
// each drive shows how far it is. The order lies in one place for all of a controller's drives. So each kind of drive has a round of its
// own, hard disks first, as in Ironic. Names of step, argument and patterns are Ironic's, the rest HPE's words.

const (
	eraseDevices = "erase_devices"
	argPattern   = "erase_pattern"
)

// erasePatterns are those of each kind of drive, and what HPE calls them.
var erasePatterns = map[string]map[string]string{
	"hdd": {"overwrite": "SanitizeRestrictedOverwrite", "crypto": "SanitizeRestrictedCryptoScramble", "zero": "OnePass"},
	"ssd": {"block": "SanitizeRestrictedBlockErase", "crypto": "SanitizeRestrictedCryptoScramble", "zero": "OnePass"},
}

// usualPatterns are Ironic's defaults.
var usualPatterns = map[string]string{"hdd": "overwrite", "ssd": "block"}

// What a drive says of its erasing.
const (
	eraseQueued  = "QueuedForErase"
	eraseRuns    = "EraseInProgress"
	eraseDone    = "EraseCompleted"
	eraseFailed  = "EraseFailed"
	eraseAborted = "EraseAborted"
)

const (
	// eraseEvery is how often the drives are looked at.
	eraseEvery = 30 * time.Second
	// eraseBegins is how many looks after the restart they may take to show anything, 20 minutes.
	eraseBegins = 40
	// eraseSettles is for how many looks a drive has to show the end that it showed before, 5 minutes: iLO reads the drives now and then,
	// and the controller's answer may come first.
	eraseSettles = 10
	// longestErase is for how long drives that show no percentage count as getting on.
	longestErase = 72 * time.Hour
)

// eraseStep is for cleanings that ask for it.
func (m Management) eraseStep() driver.Step {
	return driver.Step{Interface: "management", Name: eraseDevices, In: driver.InClean, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true, Run: m.erase,
		Takes: map[string]driver.Argument{argPattern: {Description: `Dictionary of disk type and corresponding erase pattern: for "hdd": "overwrite", "crypto" or "zero", for "ssd": "block", "crypto" or "zero". ` +
			`Default {"hdd": "overwrite", "ssd": "block"}. All drives behind Smart Array controllers are erased; no logical drive may use them.`}},
		Check: func(n *node.Document, args map[string]any) error { _, err := patternsOf(n, args); return err }}
}

// patternsOf reads the argument, and refuses it in Ironic's words.
func patternsOf(n *node.Document, args map[string]any) (map[string]string, error) {
	if kept := n.Properties["skip_block_devices"]; kept != nil {
		return nil, driver.Refuse("The node keeps disks (properties skip_block_devices), which only the ramdisk can tell apart. Step '%s' of management erases all drives, and is not executed for %s.", eraseDevices, n.UUID)
	}
	patterns := maps.Clone(usualPatterns)
	given, asked := args[argPattern]
	if !asked {
		return patterns, nil
	}
	list, is := given.(map[string]any)
	for kind, v := range list {
		pattern, _ := v.(string)
		is = is && erasePatterns[kind][pattern] != ""
		patterns[kind] = pattern
	}
	if !is {
		return nil, driver.Refuse("Erase pattern '%.100v' is invalid. Clean step '%s' is not executed for %s. Supported patterns are, for 'hdd': ('overwrite', 'crypto', 'zero') and for 'ssd': ('block', 'crypto', 'zero'). Ex. {'hdd': 'overwrite', 'ssd': 'block'}",
			given, eraseDevices, n.UUID)
	}
	return patterns, nil
}

// arrayDrive is a drive behind a Smart Array.
type arrayDrive struct {
	Location, MediaType, SerialNumber, DiskDriveUse string
	Reasons                                         []string `json:"DiskDriveStatusReasons"`
	Percentage                                      *float64 `json:"EraseCompletionPercentage"`
}

func (d arrayDrive) says(reason string) bool { return slices.Contains(d.Reasons, reason) }

// array is a controller with its drives, and where its orders are given.
type array struct {
	Model, Settings, Result string
	Drives                  []arrayDrive
	used                    []string // drives of logical drives
	last                    settled
}

// arrays reads the controllers.
func arrays(turn *redfish.Turn) (list []array, err error) {
	var system struct {
		Oem struct {
			Hpe struct {
				Links              struct{ SmartStorage redfish.Link }
				SmartStorageConfig links
			}
		}
	}
	if err := turn.Read(turn.System.Path, &system); err != nil {
		return nil, err
	}
	hpe := system.Oem.Hpe
	if hpe.Links.SmartStorage.Path == "" || len(hpe.SmartStorageConfig) == 0 {
		return nil, fmt.Errorf("it has no Smart Array whose drives it can have erased (iLO 5 of Gen10 has; Gen11 and others have not): let the ramdisk's agent erase the disks: %w", driver.ErrUnsupported)
	}
	var storage struct {
		Links struct{ ArrayControllers redfish.Link }
	}
	if err := turn.Read(hpe.Links.SmartStorage.Path, &storage); err != nil {
		return nil, err
	}
	var controllers struct{ Members []redfish.Link }
	if storage.Links.ArrayControllers.Path != "" {
		if err := turn.Read(storage.Links.ArrayControllers.Path, &controllers); err != nil {
			return nil, err
		}
	}
	at := map[string]config{} // by location
	for _, l := range hpe.SmartStorageConfig {
		var c config
		if err := turn.Read(l.Path, &c); err != nil {
			return nil, err
		}
		c.path = l.Path
		at[c.Location] = c
	}
	for _, l := range controllers.Members {
		a, err := oneArray(turn, l.Path, at)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// links is one link, or a list of them: firmwares differ.
type links []redfish.Link

// UnmarshalJSON implements json.Unmarshaler.
func (l *links) UnmarshalJSON(raw []byte) error {
	var many []redfish.Link
	if json.Unmarshal(raw, &many) == nil {
		*l = many
		return nil
	}
	var one redfish.Link
	if err := json.Unmarshal(raw, &one); err != nil {
		return err
	}
	if one.Path != "" {
		*l = links{one}
	}
	return nil
}

// config is the resource in which a controller's orders and their results are.
type config struct {
	path          string
	Location      string
	LogicalDrives []struct {
		DataDrives, SpareDrives any
	}
	Settings settled `json:"@Redfish.Settings"`
}

// settled is what became of the last order.
type settled struct {
	SettingsObject redfish.Link
	Messages       []struct {
		MessageID string `json:"MessageId"`
	}
	Time, ETag string
}

// mark tells one result from the next.
func (s settled) mark() string { return s.Time + " " + s.ETag }

func oneArray(turn *redfish.Turn, path string, at map[string]config) (a array, err error) {
	var controller struct {
		Location, Model string
		Links           struct{ PhysicalDrives redfish.Link }
	}
	if err := turn.Read(path, &controller); err != nil {
		return a, err
	}
	c := at[controller.Location]
	a = array{Model: controller.Model, Settings: c.Settings.SettingsObject.Path, Result: c.path, last: c.Settings}
	for _, l := range c.LogicalDrives {
		for _, drives := range []any{l.DataDrives, l.SpareDrives} {
			names, _ := drives.([]any)
			for _, name := range names {
				a.used = append(a.used, fmt.Sprint(name))
			}
		}
	}
	if controller.Links.PhysicalDrives.Path == "" {
		return a, nil
	}
	var drives struct{ Members []redfish.Link }
	if err := turn.Read(controller.Links.PhysicalDrives.Path, &drives); err != nil {
		return a, err
	}
	for _, l := range drives.Members {
		var d arrayDrive
		if err := turn.Read(l.Path, &d); err != nil {
			return a, err
		}
		if slices.Contains([]string{"Data", "Spare"}, d.DiskDriveUse) && !slices.Contains(a.used, d.Location) {
			a.used = append(a.used, d.Location)
		}
		a.Drives = append(a.Drives, d)
	}
	return a, nil
}

// eraseOrder is one order: drives of one kind of one controller.
type eraseOrder struct {
	// Settings is where it is given, Result where it is told what became of it.
	Settings string   `json:"settings"`
	Result   string   `json:"result"`
	Media    string   `json:"media"` // HDD or SSD
	Pattern  string   `json:"pattern"`
	Drives   []string `json:"drives"`
	// Stale are the drives that showed the end of an earlier erasing before this order was given. Was tells the result of then, which may
	// be that of the round before.
	Stale []string `json:"stale,omitempty"`
	Was   string   `json:"was,omitempty"`
	Given bool     `json:"given,omitempty"`
	// Over: each of its drives has shown the end of it.
	Over bool `json:"over,omitempty"`
}

// erasing is the handle of the step. The list of orders is fixed before the first is given.
type erasing struct {
	Orders []eraseOrder `json:"orders"`
	// Media is the kind whose round it is: HDD, then SSD.
	Media string `json:"media"`
	// Boot is the handle of the round's restart; Up says that it is over.
	Boot json.RawMessage `json:"restart_handle,omitempty"`
	Up   bool            `json:"restarted,omitempty"`
	// Begun are the drives that have shown their erasing since the restart of their round. Looks counts looks at drives that show nothing.
	Begun []string `json:"begun,omitempty"`
	Looks int      `json:"looks,omitempty"`
	// Ended counts looks at drives that show an end which may be that of before, since the controller has taken the round's orders.
	Ended int `json:"ended,omitempty"`
	// WasOff: the machine was off before the step.
	WasOff bool `json:"was_off,omitempty"`
}

// erase gives the orders, or looks how far they are.
func (m Management) erase(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "erase the drives"
	var h erasing
	if raw := t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of %s cannot be read: %w", t.Node.Label(), raw, eraseDevices, err)
		}
	}
	if h.Orders == nil {
		if err := m.planErase(ctx, t, doing, &h); err != nil {
			return driver.Outcome{}, err
		}
	}
	if !h.Up {
		if err := m.beginErase(ctx, t, doing, &h); err != nil {
			return driver.Outcome{}, err
		}
		if !h.Up {
			return driver.Wait(eraseEvery), nil
		}
	}
	return m.watchErase(ctx, t, doing, &h)
}

// planErase makes the list of orders. It refuses what the controllers cannot do before anything is written.
func (m Management) planErase(ctx context.Context, t *driver.Task, doing string, h *erasing) error {
	patterns, err := patternsOf(t.Node, t.Args)
	if err != nil {
		return err
	}
	err = m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) error {
		list, err := arrays(turn)
		if err != nil {
			return err
		}
		orders, err := plannedErase(list, patterns)
		h.Orders = orders
		return err
	})
	if err != nil {
		return err
	}
	state, err := t.Hardware.Power().PowerState(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("read the power state before the drives are erased: %w", err)
	}
	h.WasOff, h.Media = state == driver.PowerOff, h.Orders[0].Media
	return t.Record.SaveHandle(ctx, *h)
}

// plannedErase is the list of orders, hard disks first.
func plannedErase(list []array, patterns map[string]string) (orders []eraseOrder, err error) {
	var wrong []error
	for _, a := range list {
		if len(a.Drives) == 0 {
			continue
		}
		if _, series, _ := strings.Cut(a.Model, "Array "); strings.HasPrefix(series, "S") {
			wrong = append(wrong, fmt.Errorf("%s is a controller in software and erases no drives: %w", a.Model, driver.ErrUnsupported))
			continue
		}
		if a.Settings == "" {
			wrong = append(wrong, fmt.Errorf("controller %s takes no orders: %w", a.Model, driver.ErrUnsupported))
			continue
		}
		if len(a.used) > 0 {
			wrong = append(wrong, fmt.Errorf("logical drives use %s: delete them before (step raid.delete_configuration): %w", strings.Join(a.used, ", "), driver.ErrInvalid))
			continue
		}
		for _, media := range []string{"HDD", "SSD"} {
			kind := strings.ToLower(media)
			o := eraseOrder{Settings: a.Settings, Result: a.Result, Media: media, Pattern: erasePatterns[kind][patterns[kind]]}
			for _, d := range a.Drives {
				if d.MediaType == media {
					o.Drives = append(o.Drives, d.Location)
				}
			}
			if len(o.Drives) > 0 {
				orders = append(orders, o)
			}
		}
		for _, d := range a.Drives {
			switch {
			case d.MediaType != "HDD" && d.MediaType != "SSD":
				wrong = append(wrong, fmt.Errorf("drive %s is of the kind %.20q, for which there is no pattern: %w", d.Location, d.MediaType, driver.ErrUnsupported))
			case d.says(eraseRuns) || d.says(eraseQueued):
				wrong = append(wrong, fmt.Errorf("drive %s is being erased already (%s): wait for its end: %w", d.Location, strings.Join(d.Reasons, ", "), driver.ErrInvalid))
			}
		}
	}
	if len(orders) == 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Errorf("no drive is behind its Smart Arrays, so that there is nothing to erase: %w", driver.ErrInvalid))
	}
	slices.SortStableFunc(orders, func(a, b eraseOrder) int { return strings.Compare(a.Media, b.Media) }) // HDD is before SSD
	return orders, errors.Join(wrong...)
}

// beginErase gives the orders of the round, and restarts the machine. An order whose answer was lost is given again: nothing acts on it
// before the restart.
func (m Management) beginErase(ctx context.Context, t *driver.Task, doing string, h *erasing) error {
	for i := range h.Orders {
		o := &h.Orders[i]
		if o.Media != h.Media || o.Given {
			continue
		}
		err := m.Turn(ctx, t.Fence, t.Node, doing, func(turn *redfish.Turn) error {
			if err := o.look(turn); err != nil {
				return err
			}
			_, err := turn.Change(o.Settings, map[string]any{"DataGuard": "Disabled",
				"Actions": []any{map[string]any{"Action": "PhysicalDriveErase", "ErasePattern": o.Pattern, "PhysicalDriveList": o.Drives}}})
			return err
		})
		if err != nil {
			return err
		}
		o.Given = true
		if err := t.Record.SaveHandle(ctx, *h); err != nil {
			return err
		}
	}
	if h.Boot == nil && t.HandsOff() {
		return nil
	}
	if h.Boot == nil {
		t.Record.Phase("restart needed", doing+": the controllers begin when the machine starts")
	}
	part := *t
	part.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: func(ctx context.Context) error { return t.Record.SaveHandle(ctx, *h) }}
	out, err := m.Management.Bringup.Restart(ctx, &part)
	if err != nil {
		return fmt.Errorf("restart the machine, because its controllers begin only then (the order stays with them; they carry it out at the next start): %w", err)
	}
	if _, waits := out.Waiting(); waits {
		return nil
	}
	h.Up, h.Looks = true, 0
	t.Record.Busy(doing)
	return t.Record.SaveHandle(ctx, *h)
}

// look remembers what the controller and the drives show before the order. The round of another kind has just given them a new result.
func (o *eraseOrder) look(turn *redfish.Turn) error {
	var c config
	if err := turn.Read(o.Result, &c); err != nil {
		return err
	}
	list, err := arrays(turn)
	if err != nil {
		return err
	}
	o.Was, o.Stale = c.Settings.mark(), nil
	for _, a := range list {
		for _, d := range a.Drives {
			if a.Result == o.Result && slices.Contains(o.Drives, d.Location) && (d.says(eraseDone) || d.says(eraseFailed) || d.says(eraseAborted)) {
				o.Stale = append(o.Stale, d.Location)
			}
		}
	}
	return nil
}

// watchErase looks at the drives of the round. When all have ended, the next round follows: a restart must not cut an erasing short.
func (m Management) watchErase(ctx context.Context, t *driver.Task, doing string, h *erasing) (driver.Outcome, error) {
	now, results := map[string]arrayDrive{}, map[string]settled{}
	err := m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) error {
		list, err := arrays(turn)
		for _, a := range list {
			for _, d := range a.Drives {
				now[a.Result+" "+d.Location] = d
			}
			results[a.Result] = a.last
		}
		return err
	})
	switch {
	case errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrFenced):
		return driver.Wait(eraseEvery), nil // the drives go on without their iLO; one that stays away lets the state's time run out
	case err != nil && !errors.Is(err, driver.ErrUnsupported): // an iLO may show no controllers while the machine starts
		return driver.Outcome{}, err
	}
	s, err := judgeErase(h, now, results)
	if err != nil {
		if len(s.running) == 0 { // else the machine is to keep its power
			t.Record.Idle()
		}
		return driver.Outcome{}, fmt.Errorf("node %s: %s: %w", t.Node.Label(), doing, err)
	}
	switch {
	case len(s.silent) > 0:
		if h.Looks++; h.Looks >= eraseBegins {
			t.Record.Idle()
			return driver.Outcome{}, fmt.Errorf("node %s: %s: %s show nothing of it %s after the machine was restarted, so that rackd does not count them as erased: look at the controller's log", t.Node.Label(), doing, strings.Join(s.silent, ", "), eraseBegins*eraseEvery)
		}
	case len(s.running) > 0:
		h.Looks = 0
	case s.unsure && h.Ended < eraseSettles:
		h.Ended++
	case h.next():
		t.Record.Idle() // the machine is to be restarted for the next round
		return driver.Wait(time.Second), t.Record.SaveHandle(ctx, *h)
	default:
		t.Record.Idle()
		for _, o := range h.Orders {
			t.Record.Phase("erased", fmt.Sprintf("%s %s: %s", o.Media, strings.Join(o.Drives, ", "), o.Pattern))
		}
		if h.WasOff && t.Facts[driver.FactBoot] != driver.BootRamdisk {
			return driver.Done(), m.Management.Bringup.Off(ctx, t)
		}
		return driver.Done(), nil
	}
	t.Record.Busy(s.far(t.Entered))
	return driver.Wait(eraseEvery), t.Record.SaveHandle(ctx, *h)
}

// next ends a round. It reports whether there is another one.
func (h *erasing) next() bool {
	for i := range h.Orders {
		h.Orders[i].Over = h.Orders[i].Over || h.Orders[i].Given
	}
	i := slices.IndexFunc(h.Orders, func(o eraseOrder) bool { return !o.Given })
	if i >= 0 {
		h.Media, h.Boot, h.Up, h.Looks, h.Ended = h.Orders[i].Media, nil, false, 0, 0
	}
	return i >= 0
}

// erased is how far the drives of a round are: running ones with their percentage, and silent ones, which show nothing of it.
type erased struct {
	running, silent []string
	told            bool // each drive that runs shows a percentage
	unsure          bool // a drive shows the end that it showed before
}

// far is a text that changes while drives get on: by their percentages, or by the hour, for longestErase, where one shows none.
func (s erased) far(since time.Time) string {
	text := "erasing: " + strings.Join(s.running, ", ")
	if s.told {
		return text
	}
	return fmt.Sprintf("%s, %d h", text, int(min(time.Since(since), longestErase).Hours()))
}

// judgeErase compares what the drives show with the orders of the round. A drive that has not done it is an error.
func judgeErase(h *erasing, now map[string]arrayDrive, results map[string]settled) (s erased, err error) {
	s.told = true
	var wrong []error
	for _, o := range h.Orders {
		if !o.Given || o.Over {
			continue
		}
		result := results[o.Result]
		answered := result.SettingsObject.Path != "" && result.mark() != o.Was
		for _, m := range result.Messages {
			if answered && !strings.HasSuffix(m.MessageID, "Success") {
				wrong = append(wrong, fmt.Errorf("the controller has refused the order for %s: %s", strings.Join(o.Drives, ", "), m.MessageID))
			}
		}
		for _, location := range o.Drives {
			id := o.Result + " " + location
			d, there := now[id]
			begun := slices.Contains(h.Begun, id)
			fresh := begun || answered || !slices.Contains(o.Stale, location)
			switch {
			case !there:
				s.silent = append(s.silent, location) // the controllers show none while the machine starts
			case d.says(eraseRuns) || d.says(eraseQueued):
				if !begun {
					h.Begun = append(h.Begun, id)
				}
				text := location
				if d.Percentage != nil {
					text += fmt.Sprintf(" %.0f %%", *d.Percentage)
				} else {
					s.told = false
				}
				s.running = append(s.running, text)
			case fresh && !begun && h.Ended < eraseSettles && slices.Contains(o.Stale, location) && (d.says(eraseDone) || d.says(eraseFailed) || d.says(eraseAborted)):
				s.unsure = true
			case fresh && (d.says(eraseFailed) || d.says(eraseAborted)):
				wrong = append(wrong, fmt.Errorf("drive %s (serial number %s) is not erased: %s", location, d.SerialNumber, strings.Join(d.Reasons, ", ")))
			case fresh && d.says(eraseDone):
				if !begun {
					h.Begun = append(h.Begun, id)
				}
			default:
				s.silent = append(s.silent, location)
			}
		}
	}
	return s, errors.Join(wrong...)
}
