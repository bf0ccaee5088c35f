package mediaboot

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// trusting is a BMC that may be told which servers of images to trust.
type trusting struct {
	driver.Management
	driver.VirtualMedia
	given *[]string
	err   error
}

func (b trusting) TrustMedia(_ context.Context, f driver.Fence, _ *node.Document, kind string, certificates []string) error {
	*b.given = append(*b.given, kind+" "+strings.Join(certificates, " "))
	return errors.Join(b.err, f.Check())
}

// What rackd makes is loaded by https where the node asks for it. Where that cannot be, nothing is inserted.
func TestMediaByHTTPS(t *testing.T) {
	const secure = "https://192.0.2.5:8443"
	for name, c := range map[string]struct {
		asks   any
		secure string
		deaf   bool
		err    error
		// unshown: rackd's certificates cannot be read; none: there are none.
		unshown error
		none    bool
		want    string // of the machine's drive
		given   []string
		says    string
	}{
		"not asked for":               {secure: secure, want: "http://192.0.2.5:8080/media/u/secret1/boot.iso cdrom"},
		"asked for":                   {asks: true, secure: secure, want: secure + "/media/u/secret1/boot.iso cdrom"},
		"asked for, as text":          {asks: "True", secure: secure, want: secure + "/media/u/secret1/boot.iso cdrom"},
		"asked against":               {asks: false, secure: secure, want: "http://192.0.2.5:8080/media/u/secret1/boot.iso cdrom"},
		"verified":                    {asks: "verify", secure: secure, want: secure + "/media/u/secret1/boot.iso cdrom", given: []string{"cdrom PEM"}},
		"a certificate not read":      {asks: "verify", secure: secure, unshown: errors.New("the key is gone"), says: "the key is gone"},
		"a certificate not there":     {asks: "verify", secure: secure, none: true, says: "this rackd shows none"},
		"no certificate":              {asks: true, says: "--https-certificate"},
		"a BMC that verifies nothing": {asks: "verify", secure: secure, err: driver.ErrUnsupported, given: []string{"cdrom PEM"}, says: driver.ErrUnsupported.Error()},
		"a driver that has no way":    {asks: "verify", secure: secure, deaf: true, says: "no way to tell a BMC"},
	} {
		t.Run(name, func(t *testing.T) {
			info := map[string]any{}
			if c.asks != nil {
				info[fieldHTTPS] = c.asks
			}
			k := task(t, &node.Document{UUID: "u", DriverInfo: info})
			k.Media = &server{secure: c.secure, alive: true, shown: []string{"PEM"}, unshown: c.unshown}
			if c.none {
				k.Media.(*server).shown = nil
			}
			var given []string
			m := k.Hardware.Management()
			if !c.deaf {
				k.Hardware = withManagement(t, k, trusting{m, m.(driver.VirtualMedia), &given, c.err})
			}
			i := VirtualMedia(fine)
			if err := i.Validate(k.Node); err != nil {
				t.Fatal(err)
			}
			err := i.PrepareRamdisk(t.Context(), k)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			got := state(t, k)
			if !slices.Equal(given, c.given) || err == nil && got != c.want || err != nil && strings.Contains(got, "://") {
				t.Errorf("the machine boots %q, want %q; the BMC was given %q, want %q", got, c.want, given, c.given)
			}
		})
	}
}

func (b trusting) VerifiesMedia(context.Context, *node.Document, string) error { return b.err }

// A BMC whose drives verify nothing is refused before the machine is touched, where the media of an instance are to be verified.
func TestInstanceMediaThatTheBMCCannotVerify(t *testing.T) {
	for name, c := range map[string]struct {
		asks  any
		drive string
		cd    error // why drives for CDs cannot verify
		stick error
		deaf  bool
		// unshown: rackd's certificates cannot be read.
		unshown error
		says    string
	}{
		"a certificate not read":   {asks: "verify", unshown: errors.New("the key is gone"), says: "the key is gone"},
		"not asked for":            {asks: true, cd: driver.ErrUnsupported},
		"verified":                 {asks: "verify", drive: aDrive(t)},
		"the drive for CDs":        {asks: "verify", cd: driver.ErrUnsupported, says: driver.ErrUnsupported.Error()},
		"the config drive's":       {asks: "verify", drive: aDrive(t), stick: driver.ErrUnsupported, says: driver.ErrUnsupported.Error()},
		"no config drive":          {asks: "verify", stick: driver.ErrUnsupported},
		"a driver that has no way": {asks: "verify", deaf: true, says: "no way to tell a BMC"},
	} {
		t.Run(name, func(t *testing.T) {
			_, k, b, s := instanceTask(t, ownFiles(), c.drive, "CD/DVD", "USBStick")
			s.secure, s.shown, s.unshown = "https://192.0.2.5:8443", []string{"PEM"}, c.unshown
			k.Node.DriverInfo = map[string]any{fieldHTTPS: c.asks}
			var given []string
			if !c.deaf {
				k.Hardware = withManagement(t, k, perKind{trusting{b, b, &given, nil}, map[string]error{cdSlot.kind: c.cd, stickSlot.kind: c.stick}})
			}
			err := VirtualMedia(fine).ReadyInstance(t.Context(), k)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if len(b.writes)+len(given) > 0 {
				t.Errorf("the BMC was written to: %q, %q", b.writes, given)
			}
		})
	}
}

// perKind is a BMC whose drives of each type verify or not.
type perKind struct {
	trusting
	errs map[string]error
}

func (b perKind) VerifiesMedia(_ context.Context, _ *node.Document, kind string) error {
	return b.errs[kind]
}

func TestWhatIsNotLoadedByHTTPS(t *testing.T) {
	for says, c := range map[string]struct {
		info map[string]any
		by   func(func(string) error) Interface
	}{
		`is "perhaps"`:         {map[string]any{fieldHTTPS: "perhaps"}, VirtualMedia},
		"is for virtual media": {map[string]any{fieldHTTPS: true}, HTTPBoot},
		"from rackd itself":    {map[string]any{fieldHTTPS: "verify", fieldExternal: "https://192.0.2.9"}, VirtualMedia},
		"or deploy_iso: give":  {map[string]any{fieldHTTPS: "verify", "deploy_iso": "https://192.0.2.9/a.iso"}, VirtualMedia},
	} {
		n := &node.Document{UUID: "u", DriverInfo: c.info, Properties: map[string]any{"capabilities": "boot_mode:uefi"}}
		if err := c.by(fine).Validate(n); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", c.info, err, says)
		}
	}
}

// A rackd without a certificate refuses the media of an instance before the machine is touched, which may run another instance.
func TestInstanceMediaByHTTPSWithoutACertificate(t *testing.T) {
	for _, secure := range []string{"", "https://192.0.2.5:8443"} {
		_, k, b, s := instanceTask(t, ownFiles(), "", "CD/DVD")
		s.secure = secure
		k.Node.DriverInfo = map[string]any{fieldHTTPS: true}
		err := VirtualMedia(fine).ReadyInstance(t.Context(), k)
		if (err == nil) != (secure != "") || err != nil && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "--https-certificate")) || len(b.writes) != 0 {
			t.Errorf("served by TLS at %q: %v, writes %q", secure, err, b.writes)
		}
	}
}
