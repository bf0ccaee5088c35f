package irmc

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// Which iRMC a machine has, and its firmware, are kept with the node for operators. One step of verifications reads them, by which the
// iRMC's web server and the account are tried, and one vendor method reads them again. Names are Ironic's.

const (
	verifyFirmware = "verify_http_https_connection_and_fw_version"
	cacheFirmware  = "cache_irmc_firmware_version"
)

// readingFirmware says for errors what is tried.
const readingFirmware = "read the version of the iRMC's firmware"

// verifyPriority is the step's, Ironic's.
const verifyPriority = 10

// keptFirmware is what is kept of a node (driver.Keeper): as in "iRMC S5/2.48P".
type keptFirmware struct {
	Version string `json:"irmc_fw_version,omitempty"`
}

// newFirmware is the memory of the versions.
func newFirmware() *bmc.Keeping[keptFirmware] {
	return &bmc.Keeping[keptFirmware]{Counter: "irmc_fw_version_changes"}
}

// firmwareStep is for verifications. A flow that repeats it reads once more.
func (i Interface) firmwareStep() driver.Step {
	return driver.Step{Interface: "management", Name: verifyFirmware, In: driver.InVerify, Priority: verifyPriority, Kind: driver.Repeatable, Retries: 4, Pause: 10 * time.Second, NoRamdisk: true,
		Run: func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			version, err := i.cacheFirmware(ctx, t.Node)
			if err != nil {
				return driver.Outcome{}, err
			}
			t.Record.Phase("iRMC firmware", version)
			return driver.Done(), nil
		}}
}

// firmwareMethod reads the version, and writes nothing to the machine.
func (i Interface) firmwareMethod() driver.VendorMethod {
	return driver.VendorMethod{Method: driver.Method{Name: cacheFirmware, HTTPMethods: []string{http.MethodPost}, Async: true,
		Description: "Read which iRMC it is and the version of its firmware, and keep them in driver_internal_info, under driver_state, irmc_fw_version."},
		Shared: true,
		Check: func(n *node.Document, args map[string]any) error {
			for name := range args {
				return driver.Refuse("unknown argument %.40q: %s takes none", name, cacheFirmware)
			}
			return nil
		},
		Call: func(ctx context.Context, _ driver.Fence, n *node.Document, _ map[string]any) (any, error) {
			_, err := i.cacheFirmware(ctx, n)
			return nil, err
		}}
}

// cacheFirmware reads the version and keeps it with the node.
func (i Interface) cacheFirmware(ctx context.Context, n *node.Document) (version string, err error) {
	var model, firmware string
	err = i.either(n, func() error { model, firmware, err = i.firmwareByRedfish(ctx, n); return err }, func(*node.Document) error {
		r, err := i.scci.report(ctx, n, readingFirmware)
		model, firmware = r.model, r.firmware
		return overHTTP(n, err)
	})
	if err != nil {
		return "", err
	}
	if firmware == "" {
		return "", fmt.Errorf("node %s: %s: it answers, and tells none: %w", n.Label(), readingFirmware, driver.ErrUnsupported)
	}
	version = bmc.Clean(cmp.Or(model, "iRMC")+"/"+firmware, n.DriverString(fieldPassword))
	i.firmware.Change(n, func(k *keptFirmware) { k.Version = version })
	return version, nil
}

// firmwareByRedfish is what the iRMC tells of itself.
func (i Interface) firmwareByRedfish(ctx context.Context, n *node.Document) (model, firmware string, err error) {
	var k struct{ Model, FirmwareVersion string }
	err = i.Management.Turn(ctx, nil, n, readingFirmware, func(turn *redfish.Turn) error {
		_, err := turn.Manager(&k)
		return err
	})
	return k.Model, k.FirmwareVersion, err
}

// overHTTP adds to an error of an iRMC that is asked without TLS what may be the matter.
func overHTTP(n *node.Document, err error) error {
	if err == nil || n.DriverString(fieldPort) != "80" {
		return err
	}
	return fmt.Errorf("%w; %s is 80, and an iRMC S6 from 2.00 on does not answer that: set it to 443", err, fieldPort)
}
