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
	// PID is the last QEMU process: for a machine that no longer answers.
	PID int `json:"pid,omitempty"`
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

// saveState replaces the file by rename, so that a reader sees old or new.
func (m *Machine) saveState() error {
	data, err := json.Marshal(m.state)
	if err != nil {
		return err
	}
	path := filepath.Join(m.cfg.Dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
