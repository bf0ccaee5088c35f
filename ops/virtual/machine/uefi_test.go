package machine

import "testing"

// OVMF finds nothing on an empty disk without a network, and says so.
func TestUEFIFirmwareRuns(t *testing.T) {
	cfg := Config{Name: "u", Dir: t.TempDir(), Firmware: UEFI, MemoryMiB: 256, DiskMiB: 16, DieWithParent: true}
	m := open(t, cfg)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFirmware(t, m.Serial(0), "BdsDxe: (loading|failed|No bootable)")
}
