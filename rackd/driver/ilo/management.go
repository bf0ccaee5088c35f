package ilo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Management is the management interface ilo5: that of Redfish, with HPE's steps and iSCSI boot.
type Management struct {
	redfish.Management
	// BIOS and Firmware carry out steps that Ironic's iLO driver has among those of management.
	BIOS     redfish.BIOS
	Firmware redfish.Firmware
}

// Names of arguments, Ironic's.
const (
	argLicense = "ilo_license_key"
	argMode    = "firmware_update_mode"
	argImages  = "firmware_images"
)

// NamedSteps lists Redfish's steps, and those of Ironic's iLO driver.
func (m Management) NamedSteps(n *node.Document) []driver.Step {
	step := func(name string, in driver.Flows, kind driver.StepKind, run func(context.Context, *driver.Task) (driver.Outcome, error)) driver.Step {
		return driver.Step{Interface: "management", Name: name, In: in, Kind: kind, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true, Run: run}
	}
	list := append(m.Management.NamedSteps(n), step("reset_ilo", driver.InClean|driver.InDeploy, driver.Reattachable, m.resetILO))
	license := step("activate_license", driver.InClean, driver.Repeatable, m.activateLicense)
	license.Takes = map[string]driver.Argument{argLicense: {Description: "The HPE iLO Advanced license key to activate enterprise features.", Required: true}}
	license.Check = func(n *node.Document, args map[string]any) error {
		if key, is := args[argLicense].(string); args[argLicense] != nil && !is || key == "" {
			return driver.Refuse("Value of 'ilo_license_key' must be a string. Step 'activate_license' is not executed for %s.", n.UUID)
		}
		return nil
	}
	list = append(list, license)
	for _, s := range m.BIOS.NamedSteps(n) {
		if s.Name == "factory_reset" {
			s.Interface, s.Name, s.In = "management", "reset_bios_to_default", driver.InClean|driver.InDeploy
			list = append(list, s)
		}
	}
	return slices.Concat(list, m.securitySteps(step), m.certificateSteps(step), m.firmwareSteps(n), credentialSteps(n, m.credential()), []driver.Step{m.eraseStep(), m.clearStep()}, refusedSteps())
}

func (m Management) resetILO(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	return m.ResetBMC(ctx, t, func(turn *redfish.Turn) (string, any, error) {
		var k struct {
			Actions map[string]struct {
				Target string `json:"target"`
			}
		}
		if _, err := turn.Manager(&k); err != nil {
			return "", nil, err
		}
		target := k.Actions["#Manager.Reset"].Target
		if target == "" {
			return "", nil, fmt.Errorf("it has no action that restarts it: %w", driver.ErrUnsupported)
		}
		return target, map[string]any{"ResetType": "GracefulRestart"}, nil
	})
}

// licensed is an iLO's resource of itself, as far as its licence is told.
type licensed struct {
	Oem struct {
		Hpe struct {
			License struct{ LicenseString, LicenseType string }
			Links   struct{ LicenseService redfish.Link }
		}
	}
}

// activateLicense gives the iLO a licence. To give the same again is harmless.
func (m Management) activateLicense(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	key, _ := t.Args[argLicense].(string)
	var now licensed
	err := m.Turn(ctx, t.Fence, t.Node, "activate the licence", func(turn *redfish.Turn) error {
		var was licensed
		if _, err := turn.Manager(&was); err != nil {
			return err
		}
		at := was.Oem.Hpe.Links.LicenseService.Path
		if at == "" {
			return fmt.Errorf("it has no licence service: %w", driver.ErrUnsupported)
		}
		if _, err := turn.Order(at, map[string]any{"LicenseKey": key}); err != nil {
			return err
		}
		_, err := turn.Manager(&now)
		return err
	})
	if err = redfish.Hide(key, err); err != nil {
		return driver.Outcome{}, err
	}
	t.Record.Phase("licence", "the iLO shows "+now.Oem.Hpe.License.LicenseString)
	return driver.Done(), nil
}

// components are the firmwares that Redfish updates, by Ironic's words.
var components = map[string]string{"ilo": "bmc", "bios": "bios"}

// firmwareSteps are update_firmware, of cleaning, and flash_firmware, of deploys in older templates.
func (m Management) firmwareSteps(n *node.Document) (list []driver.Step) {
	for _, s := range m.Firmware.NamedSteps(n) {
		if s.Name != "update" {
			continue
		}
		run, check := s.Run, s.Check
		s.Interface, s.Name, s.In = "management", "update_firmware", driver.InClean|driver.InDeploy
		s.Takes = map[string]driver.Argument{
			argMode: {Description: "The mode of the firmware update. Supported value is 'ilo'.", Required: true},
			argImages: {Description: "The ordered list of firmware images, each with url, checksum (sha256 or sha512) and component: ilo or bios. " +
				"The rack fetches each image, compares it with its checksum, and the iLO loads it from the rack.", Required: true},
		}
		s.Check = func(n *node.Document, args map[string]any) error {
			images, err := imagesOf(n, args)
			if err != nil {
				return err
			}
			return check(n, map[string]any{"settings": settingsOf(images, nil)})
		}
		s.Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			images, err := imagesOf(t.Node, t.Args)
			if err != nil {
				return driver.Outcome{}, err
			}
			var urls []string
			for _, i := range images {
				at, err := t.Images.Prepare(ctx, driver.ImageSource{URL: i.url, HashAlgo: i.algo, HashValue: i.checksum})
				if err != nil {
					return driver.Outcome{}, err
				}
				if len(at) == 0 {
					return driver.Outcome{}, fmt.Errorf("node %s: update the firmware: the rack has no address to load the image from", t.Node.Label())
				}
				urls = append(urls, at[0])
			}
			part := *t
			part.Args = map[string]any{"settings": settingsOf(images, urls)}
			part.Reach = nil // the files are the rack's own by now
			return run(ctx, &part)
		}
		list = append(list, s)
	}
	return list
}

// image is an image of firmware that is asked for.
type image struct{ url, checksum, algo, component string }

// settingsOf are the settings of Redfish's own step.
func settingsOf(images []image, urls []string) (list []any) {
	for i, one := range images {
		at := one.url
		if urls != nil {
			at = urls[i]
		}
		list = append(list, map[string]any{"component": components[one.component], "url": at})
	}
	return list
}

// imagesOf reads the arguments of update_firmware, and refuses them in Ironic's words.
func imagesOf(n *node.Document, args map[string]any) (images []image, err error) {
	if mode, _ := args[argMode].(string); mode != "ilo" {
		return nil, driver.Refuse("Invalid firmware update mode '%.40v' provided for node: %s. Supported value is: 'ilo'.", args[argMode], n.UUID)
	}
	list, _ := args[argImages].([]any)
	if len(list) == 0 {
		return nil, driver.Refuse("Firmware images cannot be an empty list or None.")
	}
	var wrong []error
	for at, item := range list {
		one, _ := item.(map[string]any)
		text := func(name string) string { s, _ := one[name].(string); return s }
		i := image{url: text("url"), checksum: strings.ToLower(text("checksum")), component: strings.ToLower(text("component"))}
		i.algo = map[int]string{64: "sha256", 128: "sha512"}[len(i.checksum)]
		switch {
		case i.url == "" || i.checksum == "" || i.component == "":
			wrong = append(wrong, driver.Refuse("Firmware image %d is missing some of url, checksum and component.", at+1))
		case components[i.component] == "":
			wrong = append(wrong, driver.Refuse("Component '%.40s' for firmware file is not valid. Redfish updates ilo and bios.", i.component))
		case i.algo == "":
			wrong = append(wrong, driver.Refuse("The checksum of firmware image %d is neither sha256 nor sha512. A md5 proves nothing, and is not taken.", at+1))
		}
		images = append(images, i)
	}
	return images, errors.Join(wrong...)
}
