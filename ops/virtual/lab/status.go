package lab

import (
	"github.com/ironyard/ironyard/ops/virtual/machine"
)

// Status is what a lab looks like now. It holds no passwords.
type Status struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Up        bool            `json:"up"`
	Bridge    string          `json:"bridge"`
	Machines  []MachineStatus `json:"machines"`
}

// MachineStatus is what a machine looks like now.
type MachineStatus struct {
	Name      string `json:"name"`
	Firmware  string `json:"firmware"`
	MAC       string `json:"mac"`
	BMCURL    string `json:"bmc_url"`
	BMCUser   string `json:"bmc_user"`
	Power     string `json:"power"` // "on" or "off"
	SerialLog string `json:"serial_log"`
	// FurtherBMCs are the addresses of its other BMCs, by protocol.
	FurtherBMCs map[string]string `json:"further_bmcs,omitempty"`
}

// Status looks at the lab from any process; it needs no BMC.
func (l *Lab) Status() (Status, error) {
	ns, err := l.Namespace()
	if err != nil {
		return Status{}, err
	}
	s := Status{Name: l.Name, Namespace: ns.Name(), Up: ns.Exists(), Bridge: l.Bridge.String()}
	for _, m := range l.Machines {
		on, err := machine.Running(m.Dir)
		if err != nil {
			return Status{}, err
		}
		power := "off"
		if on {
			power = "on"
		}
		s.Machines = append(s.Machines, MachineStatus{
			Name: m.Name, Firmware: string(m.Firmware), MAC: m.MAC, BMCURL: m.BMCURL(), BMCUser: m.BMCUser,
			Power: power, SerialLog: machine.OpenSerial(m.Dir, 0).Path(), FurtherBMCs: m.FurtherBMCs,
		})
	}
	return s, nil
}
