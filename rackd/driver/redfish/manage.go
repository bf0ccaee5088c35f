package redfish

import (
	"fmt"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bringup"
)

// Management is the management interface of machines whose BMC speaks Redfish, with its named steps.
type Management struct {
	*Driver
	// Bringup restarts machines whose BMC changes the keys of secure boot only then.
	Bringup bringup.Settings
	// Rest is for how long a BMC that was told to restart is left alone; default 15 s.
	Rest time.Duration
	// Images: update_firmware is among the steps. iLOs have one with arguments of their own, and iRMCs none.
	Images bool
}

// NamedSteps lists Ironic's steps for the keys of secure boot, the BMC's clock and firmware, one that adds certificates to the keys, and
// one that restarts the BMC.
func (m Management) NamedSteps(*node.Document) []driver.Step {
	step := driver.Step{Interface: "management", Kind: driver.Reattachable, Retries: 4, Pause: jobPoll, NoRamdisk: true}
	with := func(name string, in driver.Flows, change func(*driver.Step)) driver.Step {
		s := step
		s.Name, s.In = name, in
		change(&s)
		return s
	}
	list := []driver.Step{
		with("reset_secure_boot_keys_to_default", driver.InClean|driver.InDeploy, func(s *driver.Step) { s.Run = m.resetsKeys(schemas.ResetAllKeysToDefaultResetKeysType) }),
		with("clear_secure_boot_keys", driver.InClean|driver.InDeploy, func(s *driver.Step) { s.Run = m.resetsKeys(schemas.DeleteAllKeysResetKeysType) }),
		with("enrol_secure_boot_certificates", driver.InClean|driver.InDeploy, func(s *driver.Step) {
			s.Run, s.Check, s.Takes = m.enrolsKeys, checkEnrol, enrolArguments()
		}),
		with("set_bmc_clock", driver.InClean, func(s *driver.Step) {
			s.Kind, s.Run, s.Check = driver.Repeatable, m.setClock, checkClock
			s.Takes = map[string]driver.Argument{
				"target_datetime":       {Description: "The time to set, in ISO 8601 with its offset from UTC. Default: the time of rackd."},
				"datetime_local_offset": {Description: "The offset of the BMC's local time from UTC, such as +02:00. Default: it stays."},
			}
		}),
		with("verify_bmc_clock", driver.InVerify, func(s *driver.Step) { s.Kind, s.Run = driver.Repeatable, m.setClock }),
		with("reset_bmc", driver.InClean|driver.InService, func(s *driver.Step) { s.Run = m.resetBMC }),
	}
	if m.Images {
		list = append(list, with("update_firmware", driver.InClean|driver.InService, Firmware{Driver: m.Driver, Bringup: m.Bringup}.byImages))
	}
	return list
}

// managerOf is the BMC that manages a system, with what of it is read here.
func managerOf(c *gofish.APIClient, s *System) (m manager, err error) {
	of := s.Links.ManagedBy
	if len(of) == 0 {
		if of, err = members(c, "/redfish/v1/Managers"); err != nil {
			return m, err
		}
		if len(of) != 1 {
			return m, fmt.Errorf("it does not tell which of its %d managers is the machine's: %w", len(of), driver.ErrUnsupported)
		}
	}
	err = fetch(c, of[0].Path, &m)
	m.ref = of[0]
	return m, err
}

// manager is a BMC's resource of itself.
type manager struct {
	ref
	DateTime, DateTimeLocalOffset, LastResetTime string
	Model, Manufacturer, SerialNumber            string
	FirmwareVersion                              string
	VirtualMedia                                 ref
	Links                                        struct{ ManagerForServers []ref }
	SerialConsole                                struct {
		ServiceEnabled        *bool
		ConnectTypesSupported []string
	}
	GraphicalConsole *picture
	NetworkProtocol  ref
	Actions          struct {
		Reset struct {
			Target  string   `json:"target"`
			Allowed []string `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#Manager.Reset"`
	}
}

// sole fails unless a system's machine is the only one that a BMC has. What the firmware is known to have at one path, and does not
// tell of, is of one machine. Who may see that must not see another tenant's.
func (m manager) sole(c *gofish.APIClient, s *System, path string) (err error) {
	systems := m.Links.ManagerForServers
	if len(systems) == 0 {
		if systems, err = members(c, "/redfish/v1/Systems"); err != nil {
			return err
		}
	}
	others, err := othersIn(c, systems, s)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("it is the BMC of other machines too (%.80s), and does not tell whose %s is: %w", strings.Join(others, ", "), path, driver.ErrUnsupported)
	}
	return err
}

// clock is the time that the manager tells.
func (m manager) clock() (time.Time, error) {
	if m.DateTime == "" {
		return time.Time{}, fmt.Errorf("it tells no time: %w", driver.ErrUnsupported)
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05"} {
		if at, err := time.Parse(form, m.DateTime); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("its time %.40q cannot be read", m.DateTime)
}
