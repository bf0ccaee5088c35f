package irmc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// A BIOS loses its settings with firmware, or with another board. One step has the iRMC read them out of the machine and keeps them with
// the node, another puts them back. The iRMC restarts the machine for both, and may leave it off.
// Names are Ironic's, whose deploys begin with the first.

const (
	backupBIOS  = "backup_bios_config"
	restoreBIOS = "restore_irmc_bios_config"
)

const (
	// maxBIOS bounds what is kept of a BIOS, as JSON and packed.
	maxBIOS       = 1 << 20
	maxPackedBIOS = 64 << 10
)

// keptBIOS is what is kept of a node (driver.Keeper): its BIOS's settings, packed.
type keptBIOS struct {
	Settings string `json:"irmc_bios_config,omitempty"`
}

// biosSteps are those of Ironic's iRMC driver. Neither runs by itself.
func (i Interface) biosSteps() []driver.Step {
	step := func(name string, in driver.Flows, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "management", Name: name, In: in, Kind: driver.Reattachable, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true, Run: run}
	}
	return []driver.Step{step(backupBIOS, 0, i.backupBIOS), step(restoreBIOS, driver.InClean|driver.InService, i.restoreBIOS)}
}

// backupBIOS keeps the settings of the machine's BIOS.
func (i Interface) backupBIOS(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return i.run(ctx, t, order{doing: "back up the BIOS's settings", give: elcm.readOut, done: func(e elcm) (bool, error) {
		var settings json.RawMessage
		there, err := e.read(profilesAt+biosProfile, &settings)
		if err == nil && !there {
			err = errors.New("its session has ended well, and there is no profile of the BIOS")
		}
		if err == nil {
			_, err = executed(settings)
		}
		if err != nil {
			return false, err
		}
		i.show(t, settings, e.clean)
		packed, err := pack(settings)
		if err != nil || i.bios.Of(t.Node).Settings == packed {
			return true, err
		}
		i.bios.Change(t.Node, func(k *keptBIOS) { k.Settings = packed })
		t.Record.Phase("BIOS backup", fmt.Sprintf("%d bytes are kept with the node, until %s puts them back", len(settings), restoreBIOS))
		return false, nil
	}})
}

// show has the API show the settings that were read out anyway, where no Redfish service tells them.
func (i Interface) show(t *driver.Task, profile []byte, clean func(string) string) {
	if _, ours := t.Hardware.BIOS().(BIOS); !ours || !i.old.is(i.Management.Account(t.Node)) {
		return
	}
	if c, err := readBIOS(profile, clean); err == nil {
		t.Record.Observe(hardware.Observation{BIOS: c.list()})
	}
}

// restoreBIOS puts back what is kept, and forgets it then.
func (i Interface) restoreBIOS(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "restore the BIOS's settings"
	packed := i.bios.Of(t.Node).Settings
	if packed == "" && t.Record.Handle() == nil {
		return driver.Outcome{}, driver.Refuse("node %s: %s: no backup of them is kept. Step %s makes one.", t.Node.Label(), doing, backupBIOS)
	}
	return i.run(ctx, t, order{doing: doing, blind: true, give: func(e elcm) (string, error) {
		settings, err := unpack(packed)
		if err == nil {
			settings, err = executed(settings)
		}
		if err != nil {
			return "", fmt.Errorf("the backup that is kept: %w", err)
		}
		return e.putIn(settings)
	}, done: func(elcm) (bool, error) {
		if i.bios.Of(t.Node).Settings == "" {
			return true, nil
		}
		i.bios.Change(t.Node, func(k *keptBIOS) { k.Settings = "" })
		t.Record.Phase("BIOS restored", "the iRMC has ended it well")
		return false, nil
	}})
}

// executed is a profile of the BIOS that is to be carried out.
func executed(profile []byte) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(profile, &whole); err != nil {
		return nil, fmt.Errorf("the profile is no JSON that can be read: %w", err)
	}
	at := whole
	for _, name := range []string{"Server", "SystemConfig", biosProfile} {
		inner, is := at[name].(map[string]any)
		if !is {
			return nil, fmt.Errorf("the profile has no %s", name)
		}
		at = inner
	}
	at["@Processing"] = "execute"
	return json.Marshal(whole)
}

// run gives an order about the BIOS that begins a session, and follows it to its end.
func (i Interface) run(ctx context.Context, t *driver.Task, o order) (driver.Outcome, error) {
	o.profile = biosProfile
	var h struct {
		session
		powered
	}
	if err := resume(t, o.doing, &h); err != nil {
		return driver.Outcome{}, err
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	if !h.Ended {
		if err := h.note(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
		over, out, err := i.scci.session(ctx, t, &h.session, o, save)
		if err != nil || !over {
			return out, err
		}
	}
	return h.restore(ctx, t, i.Management.Bringup, save)
}

// pack makes a text of settings that is fit to be kept.
func pack(settings []byte) (string, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(settings)
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	if len(settings) > maxBIOS || b.Len() > maxPackedBIOS {
		return "", fmt.Errorf("the profile of the BIOS has %d bytes, packed %d, more than are kept with a node (%d, %d)", len(settings), b.Len(), maxBIOS, maxPackedBIOS)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// unpack is the reverse of pack.
func unpack(text string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	settings, err := io.ReadAll(io.LimitReader(r, maxBIOS+1))
	if err == nil && len(settings) > maxBIOS {
		err = errors.New("it is too large")
	}
	return settings, err
}

// keepsOf is what the drivers of an interface keep of a node, one after the other: each leaves what the others keep.
func keepsOf(n *node.Document, list ...driver.Keeper) (kept json.RawMessage) {
	with := *n
	for _, k := range list {
		if now := k.Kept(&with); now != nil {
			kept, with.Kept = now, now
		}
	}
	return kept
}

// newBIOS is the memory of the backups.
func newBIOS() *bmc.Keeping[keptBIOS] { return &bmc.Keeping[keptBIOS]{Counter: "irmc_bios_changes"} }
