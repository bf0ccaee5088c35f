package machine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// DiskPath is the file that holds the disk, if the machine has one. Touch it only while the machine is off.
func (m *Machine) DiskPath() string { return filepath.Join(m.cfg.Dir, diskFile) }

// prepare makes what the folder lacks: disk and firmware variables.
func (m *Machine) prepare() error {
	if err := os.MkdirAll(m.cfg.Dir, 0o755); err != nil {
		return err
	}
	if m.cfg.Firmware == UEFI {
		if err := m.makeVariables(); err != nil {
			return fmt.Errorf("UEFI variables (package %s): %w", m.cfg.board().firmwarePackage, err)
		}
	}
	disk := m.DiskPath()
	if _, err := os.Stat(disk); err == nil || m.cfg.Diskless {
		return nil
	}
	if m.cfg.DiskFormat == Raw {
		f, err := os.Create(disk)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Truncate(int64(m.cfg.DiskMiB) << 20)
	}
	var complaint bytes.Buffer
	cmd := exec.Command("qemu-img", "create", "-q", "-f", string(m.cfg.DiskFormat), disk, strconv.Itoa(m.cfg.DiskMiB)+"M")
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("qemu-img create: %w: %s", err, complaint.String())
	}
	return nil
}

func copyOnce(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
