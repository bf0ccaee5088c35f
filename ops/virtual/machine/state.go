package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// state is what survives the controlling process.
type state struct {
	// On is whether the machine is meant to be on.
	On bool `json:"on"`
	// Override is the boot device that goes before the default; empty is none.
	Override string `json:"override,omitempty"`
	// Once makes the next start of the firmware use the override up.
	Once bool `json:"once,omitempty"`
	// Next is the BootNext that the override made last. A machine that was switched off at once has not used it up.
	Next *uint16 `json:"next,omitempty"`
	// Withdrawn is that the override was taken back since.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// PID is the last QEMU process: for a machine that no longer answers.
	PID int `json:"pid,omitempty"`
	// Console is where the serial log was when the firmware started last.
	Console int64 `json:"console,omitempty"`
	// HTTPBootURI is what the boot device HTTP is.
	HTTPBootURI string `json:"http_boot_uri,omitempty"`
	// Medium is the URL of the image in the CD drive; empty is none. MediumProblem is
	// why the last start did not find it.
	Medium        string `json:"medium,omitempty"`
	MediumProblem string `json:"medium_problem,omitempty"`
	// Stick is the URL of the image in the USB stick, StickProblem as MediumProblem.
	Stick        string `json:"stick,omitempty"`
	StickProblem string `json:"stick_problem,omitempty"`
	// Floppy is the URL of the image in the USB floppy drive, FloppyProblem as MediumProblem.
	Floppy        string `json:"floppy,omitempty"`
	FloppyProblem string `json:"floppy_problem,omitempty"`
	// SecureBootNow is whether the firmware enforced secure boot at its last start.
	SecureBootNow bool   `json:"secure_boot_now,omitempty"`
	Staged        staged `json:"staged,omitzero"`
}

func (m *Machine) loadState() error {
	data, err := os.ReadFile(filepath.Join(m.cfg.Dir, stateFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &m.state); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(m.cfg.Dir, stateFile), err)
	}
	return nil
}

// saveState replaces the file by rename, so that a reader sees old or new. It may hold
// secrets of iSCSI, and URLs that name who is allowed to read.
func (m *Machine) saveState() error {
	data, err := json.Marshal(m.state)
	if err != nil {
		return err
	}
	path := filepath.Join(m.cfg.Dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
