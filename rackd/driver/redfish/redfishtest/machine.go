package redfishtest

import (
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/drivertest"
)

// Machine is the BMC as drivertest.Conformance takes one. info makes driver_info with a password.
func (b *BMC) Machine(power driver.Power, management driver.Management, info func(password string) map[string]any) *drivertest.Machine {
	of := func(password string) *node.Document {
		return &node.Document{UUID: "6e6f6465", Name: "web1", DriverInfo: info(password)}
	}
	without := map[string]string{"Second": "it is the BMC of one machine: TestConformance of redfish has one with two"}
	if _, trusts := management.(driver.MediaTruster); trusts {
		without["MediaCertificate"] = "it has no virtual drive: ops/virtual/vbmc has one"
	}
	return &drivertest.Machine{
		Power: power, Management: management, Node: of(Password), Secret: Password, Port: b.Port, Without: without,
		Writes:    func() int { return len(b.Written()) },
		Lose:      func() { b.Do(func() { b.lose = true }) },
		Silence:   b.Server.Close,
		Spoil:     b.spoiler.Spoil,
		Asked:     b.spoiler.Asked,
		Restart:   b.spoiler.Forget,
		Sessions:  func() (n int) { b.Do(func() { n = len(b.sessions) }); return n },
		Hang:      func() { b.Do(func() { b.hang = make(chan struct{}) }) },
		WhileRead: func(do func()) { b.Do(func() { b.whileRead = do }) },
		Deny:      func() { b.Do(func() { b.deny, b.password = true, Other; clear(b.sessions) }) },
		Logins:    func() (n int) { b.Do(func() { n = b.refused }); return n },
		Corrected: func() *node.Document { return of(Other) },
		Forget: func() {
			b.Do(func() {
				Merge(b.At[b.System], map[string]any{"Boot": map[string]any{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"}})
			})
		},
	}
}
