package vbmc

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// The components that have firmware. BIOS is of a BootCounter.
const (
	BMCFirmware  = "bmc"
	BIOSFirmware = "bios"
)

// firstVersion is that of firmware that was never written.
const firstVersion = "1.0.0"

// Flash is one write of firmware that was made.
type Flash struct{ Component, Version string }

// firmware is what a BMC has of firmware.
type firmware struct {
	mu      sync.Mutex
	takes   time.Duration
	flashes []Flash
	staged  *staged
}

// staged is firmware of the computer that is written when it starts next. It outlives a start of the BMC.
type staged struct {
	version string
	starts  uint64 // of the computer, when it was staged
	task    *task
}

// FirmwareTakes is how long the BMC writes a file that it has fetched; 0 at first.
func (b *BMC) FirmwareTakes(d time.Duration) {
	b.firmware.mu.Lock()
	defer b.firmware.mu.Unlock()
	b.firmware.takes = d
}

// Flashes are the writes of firmware so far, in their order.
func (b *BMC) Flashes() []Flash {
	b.firmware.mu.Lock()
	defer b.firmware.mu.Unlock()
	b.writeStaged()
	return slices.Clone(b.firmware.flashes)
}

// writeStaged writes what is staged if the computer was started since. The caller holds the lock.
func (b *BMC) writeStaged() {
	c, ok := b.computer.(BootCounter)
	if s := b.firmware.staged; ok && s != nil && c.Starts() > s.starts {
		b.firmware.flashes, b.firmware.staged = append(b.firmware.flashes, Flash{BIOSFirmware, s.version}), nil
		b.tasks.set(s.task, "Completed", 100, "The update was written when the system started.")
	}
}

// version is what a component shows.
func (b *BMC) version(component string) string {
	version := firstVersion
	for _, f := range b.Flashes() {
		if f.Component == component {
			version = f.Version
		}
	}
	return version
}

// components are those that have firmware, by their names in Redfish.
func (b *BMC) components() (list []string) {
	list = []string{"BMC"}
	if _, ok := b.computer.(BootCounter); ok {
		list = append(list, "BIOS")
	}
	return list
}

// named are the components of Redfish's names.
var named = map[string]string{"BMC": BMCFirmware, "BIOS": BIOSFirmware}

func (b *BMC) listFirmware() object {
	var members []string
	for _, name := range b.components() {
		members = append(members, inventoryPath+"/"+name)
	}
	return collection(inventoryPath, "SoftwareInventoryCollection", "Firmware Inventory", members...)
}

func (b *BMC) showFirmware(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !slices.Contains(b.components(), name) {
		notFound(w, r)
		return
	}
	write(w, http.StatusOK, resource(inventoryPath+"/"+name, "SoftwareInventory.v1_3_0.SoftwareInventory", name, name+" Firmware", object{
		"Version": b.version(named[name]), "Updateable": true, "Status": healthy(true),
	}))
}
