package machine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Progress is how far a machine's start has come.
type Progress int

// How far it may be.
const (
	Off Progress = iota
	// InFirmware: it is being initialized, and logs in to iSCSI disks.
	InFirmware
	// Booting: that has ended, and the firmware tries its boot options.
	Booting
)

// ErrNoProgress is returned for firmware that does not tell how far it is.
var ErrNoProgress error = refused{errors.New("the firmware does not tell how far a start has come")}

// firmwareTells is how much of a start's console is read for what the firmware tells.
const firmwareTells = 256 << 10

// bootsOption begins the lines in which UEFI firmware says that it tries a boot option, on its console.
var bootsOption = []byte("BdsDxe: ")

// Progress is how far the start has come, by what the firmware has written to its console since: a board tells its
// BMC by a port of its own.
func (m *Machine) Progress() (p Progress, err error) {
	err = m.do("reading the progress of", func() error {
		if m.cfg.Firmware != UEFI {
			return ErrNoProgress
		}
		if m.proc == nil {
			return nil
		}
		p = InFirmware
		f, err := os.Open(filepath.Join(m.cfg.Dir, serialLog))
		if errors.Is(err, os.ErrNotExist) { // QEMU makes it
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(io.NewSectionReader(f, m.state.Console, firmwareTells))
		if bytes.Contains(text, bootsOption) {
			p = Booting
		}
		return err
	})
	return p, err
}
