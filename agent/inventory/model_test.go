package inventory

import (
	"bytes"
	"testing"

	"github.com/ironyard/ironyard/protocol/hints"
)

// identified is page 0x89 of an ATA drive (SAT-4, 12.4.2), as the kernel shows it: the answer to IDENTIFY DEVICE is behind 60 bytes, and
// the model is in its words 27 to 46, two characters each, the second first.
func identified(model string) string {
	page := make([]byte, 60+512)
	page[1], page[2], page[3], page[56] = 0x89, 0x02, 0x38, 0xec
	text := append([]byte(model), bytes.Repeat([]byte(" "), 40-len(model))...)
	for i := 0; i < 40; i += 2 {
		page[60+54+i], page[60+54+i+1] = text[i+1], text[i]
	}
	return string(page)
}

// SCSI's model has 16 characters, and an ATA drive's 40. Ironic's agent shows the whole (lsblk, by udev's ata_id), so nodes that come from
// Ironic have it in their hints. A disk that is kept by it must be kept.
func TestTheModelOfAnATADriveIsWhole(t *testing.T) {
	const model = "SAMSUNG MZ7LH960HAJR-00005"
	m := tree(t, map[string]string{
		"sys/block/sda/size": "1875385008", "sys/block/sda/device/vendor": "ATA     ", "sys/block/sda/device/model": model[:16], "sys/block/sda/device/vpd_pg89": identified(model),
		"sys/block/sda/device/vpd_pg80": "\x00\x80\x00\x04KEEP",
		"sys/block/sdb/size":            "937703088", "sys/block/sdb/device/vendor": "ATA     ", "sys/block/sdb/device/model": "INTEL SSDSC2KB48", "sys/block/sdb/device/vpd_pg89": identified("INTEL SSDSC2KB480G8"),
		"sys/block/sdb/device/vpd_pg80": "\x00\x80\x00\x04ROOT",
	})
	disks, unfit := m.Look()
	for _, text := range []string{model, model[:16]} { // the second is what Ironyard's own inventories have said
		keep, err := hints.ParseKept([]any{map[string]any{"model": text}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := hints.Rules{Kept: keep}.Decide(disks, unfit)
		if err != nil || len(d.Erased) != 1 || d.Erased[0].Name != "/dev/sdb" {
			t.Errorf("kept by model %q: %v, erased %+v", text, err, d.Erased)
		}
	}
}
