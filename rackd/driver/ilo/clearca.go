package ilo

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// The firmware of a machine keeps the authorities by which it trusts servers that it boots from by HTTPS. An iLO 5 stages orders to delete
// some, and the firmware carries them out when the machine starts. Names of step and argument are Ironic's, the rest HPE's words.

const (
	clearCA  = "clear_ca_certificates"
	argFiles = "certificate_files"
)

const (
	// clearEvery is how often the certificates are looked at.
	clearEvery = 10 * time.Second
	// clearShows is for how many looks after the restart they may stay, 15 minutes.
	clearShows = 90
)

// clearStep is for cleanings.
func (m Management) clearStep() driver.Step {
	return driver.Step{Interface: "management", Name: clearCA, In: driver.InClean, Kind: driver.Reattachable, Retries: 4, Pause: clearEvery, NoRamdisk: true, Run: m.clearCertificates,
		Takes: map[string]driver.Argument{argFiles: {Required: true, Description: "The certificates to delete from the machine's firmware, a list of texts in PEM. " +
			"Rackd reads no file and no URL for it. An empty list deletes all of them, also one by which the machine boots its ramdisk. The machine is restarted."}},
		Check: func(n *node.Document, args map[string]any) error { _, err := fingerprintsOf(n, args); return err }}
}

// fingerprintsOf are those of the argument's certificates, of SHA-256 in hexadecimal. None are all.
func fingerprintsOf(n *node.Document, args map[string]any) (list []string, err error) {
	given, is := args[argFiles].([]any)
	if !is {
		return nil, driver.Refuse("'%s' is not a list of certificates. Step '%s' is not executed for %s.", argFiles, clearCA, n.UUID)
	}
	for at, item := range given {
		text, _ := item.(string)
		found := 0
		for rest := []byte(text); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if block.Type != "CERTIFICATE" {
				continue
			}
			if _, err := x509.ParseCertificate(block.Bytes); err != nil {
				return nil, driver.Refuse("Certificate %d in '%s' cannot be read: %v.", at+1, argFiles, err)
			}
			sum := sha256.Sum256(block.Bytes)
			list, found = append(list, hex.EncodeToString(sum[:])), found+1
		}
		if found == 0 {
			return nil, driver.Refuse("No valid certificate at %d in '%s': give the PEM itself, for rackd reads no file and no URL. Step '%s' is not executed for %s.",
				at+1, argFiles, clearCA, n.UUID)
		}
	}
	return list, nil
}

// plainFingerprint is a fingerprint in the form of fingerprintsOf. An iLO shows it with colons.
func plainFingerprint(shown string) string {
	return strings.ToLower(strings.ReplaceAll(shown, ":", ""))
}

// trusted are the certificates that a machine's firmware trusts.
type trusted struct {
	Certificates []struct{ FingerPrint, Subject string }
	Settings     struct{ SettingsObject redfish.Link } `json:"@Redfish.Settings"`
}

// trustedBy reads them. It is an ErrUnsupported where there is no place for them, and in the BIOS boot mode.
func trustedBy(turn *redfish.Turn) (c trusted, err error) {
	var system struct{ Bios redfish.Link }
	if err := turn.Read(turn.System.Path, &system); err != nil {
		return c, err
	}
	none := fmt.Errorf("it shows no certificates by which its firmware trusts servers (iLO 5 of Gen10 and later do): %w", driver.ErrUnsupported)
	if system.Bios.Path == "" {
		return c, none
	}
	var b struct {
		Attributes struct{ BootMode string }
		Oem        struct {
			Hpe struct {
				Links struct {
					TLSConfig redfish.Link `json:"TlsConfig"`
				}
			}
		}
	}
	if err := turn.Read(system.Bios.Path, &b); err != nil {
		return c, err
	}
	switch at := b.Oem.Hpe.Links.TLSConfig.Path; {
	case b.Attributes.BootMode == "LegacyBios":
		return c, fmt.Errorf("TLS certificates cannot be removed in BIOS boot mode: %w", driver.ErrUnsupported)
	case at == "":
		return c, none
	default:
		return c, turn.Read(at, &c)
	}
}

// clearing is the handle of clear_ca_certificates. The list is fixed before the order.
type clearing struct {
	// Delete are the fingerprints to delete, as the iLO shows them.
	Delete []string `json:"delete"`
	Given  bool     `json:"given,omitempty"`
	// WasOff is the machine's power before. Boot is the handle of the restart; Up says that it is over.
	WasOff bool            `json:"was_off,omitempty"`
	Boot   json.RawMessage `json:"restart_handle,omitempty"`
	Up     bool            `json:"restarted,omitempty"`
	Looks  int             `json:"looks,omitempty"`
}

// clearCertificates has the firmware forget certificates. It is done when the iLO no longer shows them.
func (m Management) clearCertificates(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	const doing = "clear certificates of the firmware"
	var h clearing
	raw := t.Record.Handle()
	if raw != nil {
		if err := json.Unmarshal(raw, &h); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: the handle %q of %s cannot be read: %w", t.Node.Label(), raw, clearCA, err)
		}
	}
	save := func(ctx context.Context) error { return t.Record.SaveHandle(ctx, h) }
	if raw == nil {
		if err := m.planClear(ctx, t, doing, &h); err != nil {
			return driver.Outcome{}, err
		}
		if len(h.Delete) == 0 {
			t.Record.Phase("CA certificates", "the firmware has none of those that are to be deleted")
			return driver.Done(), nil
		}
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	if !h.Given {
		if err := m.orderClear(ctx, t, doing, h.Delete); err != nil {
			return driver.Outcome{}, err // given again, it ends in the same certificates: nothing acts on it before the restart
		}
		h.Given = true
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	if !h.Up {
		if h.Boot == nil && t.HandsOff() {
			return driver.Wait(clearEvery), nil
		}
		if h.Boot == nil {
			t.Record.Phase("restart needed", doing+": the firmware does it when the machine starts")
		}
		part := *t
		part.Record = driver.Part{Recorder: t.Record, Kept: &h.Boot, Save: save}
		out, err := m.Management.Bringup.Restart(ctx, &part)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("restart the machine, because its firmware deletes certificates only then (the order stays with the iLO, for the next start): %w", err)
		}
		if _, waits := out.Waiting(); waits {
			return out, nil
		}
		h.Up = true
		if err := save(ctx); err != nil {
			return driver.Outcome{}, err
		}
	}
	return m.cleared(ctx, t, doing, &h)
}

// planClear lists what is there of what is to be deleted.
func (m Management) planClear(ctx context.Context, t *driver.Task, doing string, h *clearing) error {
	wanted, err := fingerprintsOf(t.Node, t.Args)
	if err != nil {
		return err
	}
	err = m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) error {
		h.Delete = nil
		now, err := trustedBy(turn)
		for _, c := range now.Certificates {
			if len(wanted) == 0 || slices.Contains(wanted, plainFingerprint(c.FingerPrint)) {
				h.Delete = append(h.Delete, c.FingerPrint)
			}
		}
		return err
	})
	if err != nil || len(h.Delete) == 0 {
		return err
	}
	state, err := t.Hardware.Power().PowerState(ctx, t.Node)
	if err != nil {
		return fmt.Errorf("read the power state before certificates are deleted: %w", err)
	}
	h.WasOff = state == driver.PowerOff
	return nil
}

// orderClear gives the order.
func (m Management) orderClear(ctx context.Context, t *driver.Task, doing string, list []string) error {
	return m.Turn(ctx, t.Fence, t.Node, doing, func(turn *redfish.Turn) error {
		now, err := trustedBy(turn)
		if err != nil {
			return err
		}
		at := now.Settings.SettingsObject.Path
		if at == "" {
			return fmt.Errorf("it takes no orders about the certificates of its firmware: %w", driver.ErrUnsupported)
		}
		var some []any
		for _, fingerprint := range list {
			some = append(some, map[string]any{"FingerPrint": fingerprint})
		}
		_, err = turn.Replace(at, map[string]any{"DeleteCertificates": some})
		return err
	})
}

// cleared looks whether the certificates are gone. An iLO may show none of this while the machine starts.
func (m Management) cleared(ctx context.Context, t *driver.Task, doing string, h *clearing) (driver.Outcome, error) {
	var left []string
	err := m.Turn(ctx, nil, t.Node, doing, func(turn *redfish.Turn) error {
		left = nil
		now, err := trustedBy(turn)
		for _, c := range now.Certificates {
			if slices.Contains(h.Delete, c.FingerPrint) {
				left = append(left, fmt.Sprintf("%.80s (%.95s)", c.Subject, c.FingerPrint))
			}
		}
		return err
	})
	h.Looks++
	switch over := h.Looks >= clearShows; {
	case err == nil && len(left) == 0:
		t.Record.Phase("CA certificates", fmt.Sprintf("deleted: %s", strings.Join(h.Delete, ", ")))
		if h.WasOff && t.Facts[driver.FactBoot] != driver.BootRamdisk {
			return driver.Done(), m.Management.Bringup.Off(ctx, t)
		}
		return driver.Done(), nil
	case err != nil && (over || errors.Is(err, driver.ErrFenced) || !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrUnsupported)):
		return driver.Outcome{}, err
	case over:
		return driver.Outcome{}, fmt.Errorf("node %s: %s: the iLO accepted the order, and %s after the machine was restarted its firmware still has %s: look at the iLO's log",
			t.Node.Label(), doing, clearShows*clearEvery, strings.Join(left, ", "))
	}
	return driver.Wait(clearEvery), t.Record.SaveHandle(ctx, *h)
}
