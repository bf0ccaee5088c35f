package conductor

import (
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// What a machine runs before a flow.
const (
	anInstance = "the instance"
	aRamdisk   = "the ramdisk"
	itsDisk    = "what its disk holds"
)

// holdsFirst is of a deploy that holds before any other step.
var holdsFirst = work.Args{Steps: []work.Step{{Interface: "power", Step: "hold", Priority: 200}}}

// powerRead is what hangs where the BMC does not answer what the power is.
const powerRead = "power state"

// always is how often a broken BMC refuses.
const always = 1 << 30

// endings are the rows of docs/flows.md. Steps take a minute each.
var endings = []ending{
	{flow: "deploy", end: "success", verb: work.Deploy, entry: provision.Deploying, from: provision.Available},
	{flow: "deploy", end: "success with disable_power_off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, starts: itsDisk, noOff: true},
	{flow: "deploy", end: "refused by the rack", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, invalid: true},
	{flow: "deploy", end: "failure before the machine was touched", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "fetch_image"},
	{flow: "deploy", end: "failure before the ramdisk boots", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, stuck: true},
	{flow: "deploy", end: "abort before the ramdisk boots", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, stuck: true, abort: 90 * time.Second},
	{flow: "deploy", end: "takeover before the ramdisk boots, and failure", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, stuck: true, dies: 90 * time.Second},
	{flow: "deploy", end: "failure in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image"},
	{flow: "deploy", end: "deadline in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, hangs: "write_image"},
	{flow: "deploy", end: "failure in the ramdisk, whose rackd dies when the machine is off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", diesAt: "conductor.off"},
	{flow: "deploy", end: "failure in the ramdisk, the BMC switches nothing off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", faults: faults{staysOn: always}},
	{flow: "deploy", end: "the same, booted from the network", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", network: true, faults: faults{staysOn: always}},
	{flow: "deploy", end: "failure in the ramdisk, the BMC does not eject", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", faults: faults{keeps: always}},
	{flow: "deploy", end: "failure in the ramdisk with disable_power_off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", noOff: true, starts: itsDisk},
	{flow: "deploy", end: "deadline in the ramdisk with disable_power_off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, starts: itsDisk, noOff: true, hangs: "write_image"},
	{flow: "deploy", end: "the same, and its rackd dies before the reset", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, starts: itsDisk, noOff: true,
		hangs: "write_image", diesAt: "conductor.cleaned"},
	{flow: "deploy", end: "abort in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, abort: 150 * time.Second,
		differs: "Ironic leaves the power on: here the agent would go on writing"},
	{flow: "deploy", end: "takeover in the ramdisk, and failure", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "write_image", dies: 150 * time.Second},
	{flow: "deploy", end: "takeover in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, dies: 150 * time.Second,
		differs: "Ironic fails the deploy"},
	{flow: "deploy", end: "a hold in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, args: named("hold"), holds: true},
	{flow: "deploy", end: "abort of a hold in the ramdisk", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, args: named("hold"), abort: 10 * time.Minute},
	{flow: "deploy", end: "failure when the instance is to boot", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, fails: "boot_instance"},
	{flow: "deploy of a CD", end: "success", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD},
	{flow: "deploy of a CD", end: "failure when the instance is to boot", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, fails: "deploy"},
	{flow: "deploy of a CD", end: "abort when the instance is to boot", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, abort: 30 * time.Second},
	{flow: "deploy of a CD", end: "takeover when the instance is to boot, and failure", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, fails: "deploy", dies: 30 * time.Second},
	{flow: "deploy of a CD", end: "failure, the BMC switches nothing off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, fails: "deploy", faults: faults{staysOn: always}},
	{flow: "deploy of a CD", end: "failure, the BMC does not eject", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, fails: "deploy", faults: faults{keeps: always}},
	{flow: "deploy of a CD", end: "failure with disable_power_off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onCD, starts: itsDisk, fails: "deploy", noOff: true},
	{flow: "deploy of a volume", end: "success", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume},
	{flow: "deploy of a volume", end: "failure before the instance's boot is prepared", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, fails: "deploy"},
	{flow: "deploy of a volume", end: "failure before the machine is on", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, fails: "prepare_instance_boot"},
	{flow: "deploy of a volume", end: "failure when the firmware is to log in", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, fails: "boot_instance"},
	{flow: "deploy of a volume", end: "deadline when the firmware is to log in", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, hangs: "boot_instance"},
	{flow: "deploy of a volume", end: "abort when the firmware is to log in", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, abort: 150 * time.Second},
	{flow: "deploy of a volume", end: "failure, the BMC switches nothing off", verb: work.Deploy, entry: provision.Deploying, from: provision.Available, live: onVolume, fails: "boot_instance", faults: faults{staysOn: always}},
	{flow: "rebuild of a CD", end: "refused by the rack", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, live: onCD, starts: anInstance, invalid: true, differs: "the same"},
	{flow: "rebuild of a CD", end: "failure when the instance is to boot", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, live: onCD, starts: anInstance, fails: "deploy"},
	{flow: "undeploy of a CD", end: "success, without cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, live: onCD, starts: anInstance, unclean: true},
	{flow: "service of a volume", end: "failure in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, live: onVolume, starts: anInstance, args: named("tool"), fails: "tool"},
	{flow: "rescue of a volume", end: "failure in the ramdisk", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, live: onVolume, starts: anInstance, fails: "rescue"},
	{flow: "rebuild", end: "success", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance},
	{flow: "rebuild", end: "refused by the rack", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, invalid: true,
		differs: "Ironic says deploy failed: here the instance runs, and deploy failed invites to delete it"},
	{flow: "rebuild", end: "failure before the machine was touched", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, fails: "fetch_image",
		differs: "the same"},
	{flow: "rebuild", end: "abort before the machine was touched", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, abort: 30 * time.Second,
		differs: "the same"},
	{flow: "rebuild", end: "abort of a hold before the machine was touched", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance,
		args: holdsFirst, abort: 10 * time.Minute, differs: "the same"},
	{flow: "rebuild", end: "failure in the ramdisk", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, fails: "write_image"},
	{flow: "rebuild", end: "deadline in the ramdisk", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, hangs: "write_image"},
	{flow: "rebuild", end: "deadline in the ramdisk with disable_power_off", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, noOff: true, hangs: "write_image"},
	{flow: "rebuild", end: "abort in the ramdisk", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, abort: 150 * time.Second,
		differs: "Ironic leaves the power on: here the agent would go on writing"},
	{flow: "rebuild", end: "takeover in the ramdisk", verb: work.Rebuild, entry: provision.Deploying, from: provision.Active, starts: anInstance, dies: 150 * time.Second,
		differs: "Ironic fails the rebuild"},
	{flow: "undeploy", end: "success, with cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance},
	{flow: "undeploy", end: "success, without cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, unclean: true},
	{flow: "undeploy", end: "success, with cleaning, with disable_power_off", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true},
	{flow: "undeploy", end: "success, without cleaning, with disable_power_off", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true, unclean: true},
	{flow: "undeploy", end: "fields that the rack refuses", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, invalid: true},
	{flow: "undeploy", end: "fields that the rack refuses, with disable_power_off", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true, invalid: true},
	{flow: "undeploy", end: "failure of the tear-down", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, fails: "tear_down"},
	{flow: "undeploy", end: "deadline of the tear-down", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, hangs: "tear_down"},
	{flow: "undeploy", end: "failure of the cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, fails: "erase"},
	{flow: "undeploy", end: "deadline of the cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, hangs: "erase"},
	{flow: "undeploy", end: "failure of the cleaning with disable_power_off", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true, fails: "erase"},
	{flow: "undeploy", end: "deadline of the cleaning with disable_power_off", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, noOff: true, hangs: "erase"},
	{flow: "undeploy", end: "abort of the cleaning", verb: work.Delete, entry: provision.Deleting, from: provision.Active, starts: anInstance, abort: 150 * time.Second},
	{flow: "automated clean", end: "success", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk},
	{flow: "automated clean", end: "success with disable_power_off", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, noOff: true},
	{flow: "automated clean", end: "refused by the rack", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, invalid: true},
	{flow: "automated clean", end: "failure before the ramdisk boots", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, stuck: true},
	{flow: "automated clean", end: "abort before the ramdisk boots", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, stuck: true, abort: 30 * time.Second},
	{flow: "automated clean", end: "failure in the ramdisk", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, fails: "erase",
		differs: "Ironic leaves one on that booted from the network"},
	{flow: "automated clean", end: "failure in the ramdisk with disable_power_off", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, fails: "erase", noOff: true},
	{flow: "automated clean", end: "deadline in the ramdisk", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, hangs: "erase",
		differs: "the same"},
	{flow: "automated clean", end: "deadline in the ramdisk with disable_power_off", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, noOff: true, hangs: "erase"},
	{flow: "automated clean", end: "the ramdisk does not come up", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, fails: "prepare_clean",
		differs: "Ironic sets no fault"},
	{flow: "automated clean", end: "deadline of the boot into the ramdisk with disable_power_off", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, noOff: true, hangs: "prepare_clean"},
	{flow: "automated clean", end: "abort in the ramdisk", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, abort: 90 * time.Second},
	{flow: "automated clean", end: "abort in the ramdisk with disable_power_off", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, abort: 90 * time.Second, noOff: true},
	{flow: "automated clean", end: "takeover in the ramdisk", verb: work.Provide, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, dies: 90 * time.Second,
		differs: "Ironic fails the cleaning"},
	{flow: "manual clean", end: "success in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase")},
	{flow: "manual clean", end: "success in the ramdisk with disable_power_off", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), noOff: true},
	{flow: "manual clean", end: "refused by the rack", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), invalid: true},
	{flow: "manual clean", end: "failure in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), fails: "erase",
		differs: "Ironic leaves one on that booted from the network"},
	{flow: "manual clean", end: "deadline in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), hangs: "erase",
		differs: "the same"},
	{flow: "manual clean", end: "failure in the ramdisk with disable_power_off", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), noOff: true, fails: "erase"},
	{flow: "manual clean", end: "deadline in the ramdisk with disable_power_off", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), noOff: true, hangs: "erase"},
	{flow: "manual clean", end: "abort in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), abort: 90 * time.Second},
	{flow: "manual clean", end: "takeover in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"), dies: 90 * time.Second,
		differs: "Ironic fails the cleaning"},
	{flow: "manual clean", end: "a step that the ramdisk's agent does not have", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("typo"),
		differs: "Ironic sets no fault"},
	{flow: "manual clean", end: "abort of a step that must not be cut short, and fails", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase"),
		uncut: "erase", fails: "erase", abort: 90 * time.Second},
	{flow: "manual clean", end: "success out of band", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: oob("bios")},
	{flow: "manual clean", end: "failure out of band", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: oob("bios"), fails: "bios"},
	{flow: "manual clean", end: "abort out of band", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: oob("bios"), abort: 30 * time.Second,
		differs: "Ironic switches the machine off"},
	{flow: "manual clean", end: "a hold in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase", "hold"), holds: true},
	{flow: "manual clean", end: "abort of a hold in the ramdisk", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: named("erase", "hold"), abort: 10 * time.Minute},
	{flow: "manual clean", end: "abort of a hold out of band", verb: work.Clean, entry: provision.Cleaning, from: provision.Manageable, starts: itsDisk, args: oob("bios", "hold"), abort: 10 * time.Minute},
	{flow: "inspect in band", end: "success", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk},
	{flow: "inspect in band", end: "success with disable_power_off", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, noOff: true},
	{flow: "inspect in band", end: "refused by the rack", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, invalid: true},
	{flow: "inspect in band", end: "failure before the ramdisk boots", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, stuck: true},
	{flow: "inspect in band", end: "failure in the ramdisk", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, fails: "boot_ramdisk"},
	{flow: "inspect in band", end: "deadline in the ramdisk", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, hangs: "boot_ramdisk"},
	{flow: "inspect in band", end: "failure in the ramdisk with disable_power_off", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, noOff: true, fails: "boot_ramdisk"},
	{flow: "inspect in band", end: "deadline in the ramdisk with disable_power_off", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, noOff: true, hangs: "boot_ramdisk"},
	{flow: "inspect in band", end: "abort in the ramdisk", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, abort: 30 * time.Second},
	{flow: "inspect in band", end: "abort in the ramdisk with disable_power_off", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, noOff: true, abort: 30 * time.Second},
	{flow: "inspect in band", end: "takeover in the ramdisk", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, dies: 30 * time.Second,
		differs: "Ironic waits for its time limit"},
	{flow: "inspect out of band", end: "success", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, outOfBand: true},
	{flow: "inspect out of band", end: "refused by the rack", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, outOfBand: true, invalid: true},
	{flow: "inspect out of band", end: "failure", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, outOfBand: true, fails: "read"},
	{flow: "inspect out of band", end: "abort", verb: work.Inspect, entry: provision.Inspecting, from: provision.Manageable, starts: itsDisk, outOfBand: true, abort: 30 * time.Second},
	{flow: "service", end: "success in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool")},
	{flow: "service", end: "success in the ramdisk with disable_power_off", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), noOff: true},
	{flow: "service", end: "success out of band", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: oob("bios")},
	{flow: "service", end: "refused by the rack", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), invalid: true},
	{flow: "service", end: "failure before the ramdisk boots", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), stuck: true},
	{flow: "service", end: "abort before the ramdisk boots", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), stuck: true, abort: 30 * time.Second},
	{flow: "service", end: "failure in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), fails: "tool"},
	{flow: "service", end: "the same, booted from the network", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), fails: "tool", network: true},
	{flow: "service", end: "deadline in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), hangs: "tool"},
	{flow: "service", end: "failure in the ramdisk with disable_power_off", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), noOff: true, fails: "tool"},
	{flow: "service", end: "deadline in the ramdisk with disable_power_off", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), noOff: true, hangs: "tool"},
	{flow: "service", end: "failure out of band", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: oob("bios"), fails: "bios"},
	{flow: "service", end: "abort in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), abort: 90 * time.Second},
	{flow: "service", end: "abort in the ramdisk with disable_power_off", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), noOff: true, abort: 90 * time.Second},
	{flow: "service", end: "takeover in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool"), dies: 90 * time.Second},
	{flow: "service", end: "abort out of band", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: oob("bios"), abort: 30 * time.Second},
	{flow: "service", end: "a hold in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool", "hold"), holds: true},
	{flow: "service", end: "abort of a hold in the ramdisk", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: named("tool", "hold"), abort: 10 * time.Minute},
	{flow: "service", end: "abort of a hold out of band", verb: work.Service, entry: provision.Servicing, from: provision.Active, starts: anInstance, args: oob("bios", "hold"), abort: 10 * time.Minute},
	{flow: "rescue", end: "success", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance},
	{flow: "rescue", end: "success with disable_power_off", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, noOff: true},
	{flow: "rescue", end: "refused by the rack", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, invalid: true},
	{flow: "rescue", end: "failure before the ramdisk boots", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, stuck: true},
	{flow: "rescue", end: "failure in the ramdisk", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, fails: "rescue"},
	{flow: "rescue", end: "deadline in the ramdisk", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, hangs: "rescue"},
	{flow: "rescue", end: "failure in the ramdisk with disable_power_off", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, noOff: true, fails: "rescue"},
	{flow: "rescue", end: "deadline in the ramdisk with disable_power_off", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, noOff: true, hangs: "rescue"},
	{flow: "rescue", end: "abort in the ramdisk", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, abort: 30 * time.Second,
		differs: "Ironic leaves the power on: here the password of the rescue would go on to work"},
	{flow: "rescue", end: "abort in the ramdisk with disable_power_off", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, noOff: true, abort: 30 * time.Second},
	{flow: "rescue", end: "takeover in the ramdisk", verb: work.Rescue, entry: provision.Rescuing, from: provision.Active, starts: anInstance, dies: 30 * time.Second},
	{flow: "unrescue", end: "success", verb: work.Unrescue, entry: provision.Unrescuing, from: provision.Rescue, starts: aRamdisk},
	{flow: "unrescue", end: "success with disable_power_off", verb: work.Unrescue, entry: provision.Unrescuing, from: provision.Rescue, starts: aRamdisk, noOff: true},
	{flow: "unrescue", end: "refused by the rack", verb: work.Unrescue, entry: provision.Unrescuing, from: provision.Rescue, starts: aRamdisk, invalid: true},
	{flow: "unrescue", end: "failure", verb: work.Unrescue, entry: provision.Unrescuing, from: provision.Rescue, starts: aRamdisk, fails: "unrescue"},
	{flow: "unrescue", end: "deadline", verb: work.Unrescue, entry: provision.Unrescuing, from: provision.Rescue, starts: aRamdisk, hangs: "unrescue"},
	{flow: "adopt", end: "success", verb: work.Adopt, entry: provision.Adopting, from: provision.Manageable, starts: anInstance},
	{flow: "adopt", end: "refused by the rack", verb: work.Adopt, entry: provision.Adopting, from: provision.Manageable, starts: anInstance, invalid: true},
	{flow: "adopt", end: "failure", verb: work.Adopt, entry: provision.Adopting, from: provision.Manageable, starts: anInstance, unread: true},
	{flow: "adopt", end: "deadline", verb: work.Adopt, entry: provision.Adopting, from: provision.Manageable, starts: anInstance, hangs: powerRead},
	{flow: "adopt", end: "deadline with disable_power_off", verb: work.Adopt, entry: provision.Adopting, from: provision.Manageable, starts: anInstance, hangs: powerRead, noOff: true},
	{flow: "verify", end: "success", verb: work.Manage, entry: provision.Verifying, from: provision.Enroll, starts: itsDisk},
	{flow: "verify", end: "refused by the rack", verb: work.Manage, entry: provision.Verifying, from: provision.Enroll, starts: itsDisk, invalid: true},
	{flow: "verify", end: "failure", verb: work.Manage, entry: provision.Verifying, from: provision.Enroll, starts: itsDisk, fails: "look"},
	{flow: "verify", end: "deadline", verb: work.Manage, entry: provision.Verifying, from: provision.Enroll, starts: itsDisk, hangs: "look"},
	{flow: "power on", end: "success", verb: work.Power, entry: provision.Available, from: provision.Available, args: work.Args{PowerTarget: string(driver.PowerOn)}},
	{flow: "power on", end: "the BMC refuses it", verb: work.Power, entry: provision.Available, from: provision.Available, args: work.Args{PowerTarget: string(driver.PowerOn)}, stuck: true},
	{flow: "power off", end: "success", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.PowerOff)}},
	{flow: "power off", end: "the BMC refuses it", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.PowerOff)}, stuck: true},
	{flow: "soft power off", end: "success", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.SoftPowerOff)}},
	{flow: "soft power off", end: "the machine does not switch itself off", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.SoftPowerOff)}, deaf: true},
	{flow: "reboot", end: "success", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.Rebooting)}},
	{flow: "reboot", end: "the BMC refuses it", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.Rebooting)}, stuck: true},
	{flow: "reboot", end: "success with disable_power_off", verb: work.Power, entry: provision.Active, from: provision.Active, starts: anInstance, args: work.Args{PowerTarget: string(driver.Rebooting)}, noOff: true},
}

func oob(steps ...string) work.Args {
	a := named(steps...)
	a.DisableRamdisk = true
	return a
}

const flowsHead = `# How flows end

Generated from ` + "`rackd/conductor`" + ` by ` + "`make docs`" + `; do not edit. A test plays each row on a scripted machine and holds this page against what it saw.

Seven rules decide what becomes of the machine.

- **Judged before it is touched.** Central asks the rack before it accepts a request: what speaks against the interfaces, the boot or the steps is
  a 400. A step that only the ramdisk's agent may have is judged when the agent is asked; a rebuild and a service judge it by
  what that ramdisk has told before, if it has. Where the rack cannot be asked, its work judges the same first.
  An undeploy takes the instance off whatever the node's fields say; the boot of its cleaning is judged after that.
- **Power is left alone where this flow has neither booted the machine nor made its instance boot.** A failure switches off what the flow has booted into the ramdisk. A service that failed leaves
  its machine in the ramdisk, for an operator to look at, unless that runs from a medium.
- **The ramdisk's boot is taken back, whichever way the flow ends** ([decision 87](decisions/087-every-way-out-is-clean.md)). A medium is ejected that this flow inserted,
  and no other. The machine is off before, for it may read from the medium; with ` + "`disable_power_off`" + ` it may not be.
- **The boot of an instance that is not to be is taken back** ([decision 139](decisions/139-no-boot-of-an-instance-that-is-not-to-be.md)). A deploy may fail or be aborted once
  it has made its instance boot. Then it leaves no medium in a CD drive, no volume in the firmware, and neither as boot device, and its machine is off. A rebuild that has booted the
  ramdisk takes back the boot of the instance before it, too. Rescues, services and adoptions leave an instance's medium and volume alone.
- **An owner's images go with the instance.** An undeploy takes out what is in any virtual drive, also what an operator has put in there. It fails if an
  image stays. Where the BMC does not list its drives, the history says so.
- **The instance's system ends with the instance**, for the machine is switched off. With ` + "`disable_power_off`" + ` only the boot into the ramdisk of a
  cleaning ends it. Without that boot it runs on, also on a node that is available, and the history says so (` + "`power off`" + `).
- **The list of steps is fixed when it is made.** It stands in the work's checkpoint. A rackd that goes on with the work runs that list or fails.

An abort leaves a step its time that must not be cut short: the rack decides by the checkpoint. The row then applies once the step has ended. A takeover changes no end, so
three rows stand for all. [Ways out](ways-out.md) has the deadlines; a deadline ends a flow as its failure does.

With ` + "`disable_power_off`" + ` a failure leaves the machine in the ramdisk: its agent has said how its step ended, and is idle. After an abort or a deadline
the agent may still erase or write. So it may where a rackd takes over that lacks a step of the list. The machine is then reset once the ramdisk's boot
is taken back. It boots what its disk holds: after an undeploy that may be what is left of the instance. A service that fails by its deadline is not reset. Its machine stays in the ramdisk for the operator, and
the agent's step may go on there.

"Boots next" is what a boot from the network or from a medium gets. "Medium" is the ramdisk's; the rows are those of a boot interface that inserts one unless they
say otherwise. In the rows of instances on a CD or a volume it is the instance's: a CD is in its drive, or the volume in the firmware, with the boot device that it needs. Where the ramdisk comes from the network the rest is the same. A dash means that the flow has none.

A BMC that refuses or is silent keeps no flow from its end. The rack tries for 40 s to switch the machine off, as long to eject, and as long to take back the instance's boot. What it could not do stands in last_error, and
in the history as ` + "`not cleaned up`" + `. It is not tried again later: the node is its operator's then, and the next flow replaces the medium or ejects it.

A machine that was asked to switch on, and is off when its flow ends, may still come on: some BMCs carry out the order minutes later. The rack looks for 150 s,
and switches the machine off if it does.

| flow | end | power | boots next | medium | agent | VIFs | state | fault | last_error | Ironic differs |
|---|---|---|---|---|---|---|---|---|---|---|
`

const flowsTail = `
## Ends that no rackd brings about

| end | what becomes of the machine and the node | held by |
|---|---|---|
| central's watchdog ends the work: no rackd lives | the machine is left as it was; the state machine's failure; cleanings and services get maintenance and their fault; last_error says since when no rackd lived and which step ran last | ` + "`central/watchdog`" + ` |
| abort of service failed, machine in the ramdisk | a piece of work takes it down, prepares the instance's boot and starts it; the node is active then, and service failed before | ` + "`TestAbortOfAFailedServiceTakesTheMachineDown`" + ` |
| abort of service failed, machine not in the ramdisk | active at once; nothing is sent to the machine | ` + "`TestAbortOfAFailedService`" + ` |
| abort that comes when the flow has ended | nothing is undone; the state is the one in which the flow has ended, and last_error says that the abort came too late | ` + "`TestAbortThatComesTooLate`" + ` |
| abort while a failure is carried out that keeps the power, for the BMC may be at work | the rest of that failure is done; last_error says that the abort came too late | ` + "`TestAnAbortOfAFailureLeavesTheBMCAtWork`" + ` |

## Reboots without power off

A node with ` + "`disable_power_off`" + ` is reset where other nodes are switched off and on. A reset leaves nothing to read back. One that may have happened is
repeated only where a second one does no harm, or where the ramdisk's agent shows by its answer that there was none. Elsewhere the request fails and says so.
Hardware that has no reset is switched off and on. If its rackd dies in between, the next owner finds the machine off and switches it on: the reboot is
done then.

## Power requests beside a flow in the ramdisk

| the request | the flow |
|---|---|
| is refused by the BMC, or the machine does not switch itself off | goes on with the agent that is there |
| has switched the machine off | waits for the agent of the next boot, which is counted before the machine is switched on |
| is a reset (` + "`disable_power_off`" + `) | the same; the boot is counted before the reset, and the count is taken back if there was none. So does the next owner, if the agent of before still answers it |
| is done, or half done, and its rackd dies | the next owner does what is left of it, and restarts nothing a second time |
| is under way, and the flow is aborted | the request is ended first where the abort leaves the machine its power: a reboot switches it on again. Elsewhere the abort decides, and the request ends with an error |
| is under way, and another service is asked for | goes on; the service is refused with 409 until the end of the request is told |

## An undeploy while the BMC is at work

An undeploy takes the place of a flow that waits. While the BMC writes firmware for that flow, or makes a volume, the machine keeps its power: the undeploy
begins with a look, by that flow's step, until the BMC has ended. The step may read only: what it would order next is not ordered. Whatever became of its work stands in the
history, and the tear-down follows. A BMC that says for two hours that it works and does not get on ends the undeploy in error. The next one switches the machine off.

Beside a flow whose BMC is at work, requests for power and adjustments (boot device, boot mode, vendor methods, media, NMI) are refused, and
say so. Consoles are not refused.

A boot device that a request has set for all starts stays so until a flow sets another for the instance. A ramdisk's device for one start may take its
place at the BMC; after the flow the boot-order guard sets it again ([monitoring.md](monitoring.md#boot-order)).

## Restarts that a step needs

| the step | what follows |
|---|---|
| ` + "`raid.*`, `firmware.update` or `management.update_firmware`" + ` by Redfish, and the BMC only stages what it was told | the machine is restarted, once for an order: into the ramdisk where that runs, else into what it boots, the instance too. A machine that was off is off again when the step ends ([decision 85](decisions/085-what-a-bmc-stages.md)) |
| ` + "`firmware.update`" + ` of ` + "`asrockrack`" + `, of a BIOS that the BMC has written | the same |
| ` + "`management.clear_ca_certificates`" + ` of an iLO 5, which stages its order for the firmware | the same |
| the agent's, says ` + "`reboot_requested`" + ` and has succeeded | the machine boots the ramdisk again, once, and the flow goes on when the new boot's agent has called |

While the node is in maintenance no such restart begins: the step waits for the end of the maintenance.

## An agent that starts again in the middle of a step

The machine may reboot, or the agent may crash, while the agent runs a step. Rackd sees it when the next agent has called and does not know the command.

| the step | what follows |
|---|---|
| says ` + "`abortable` or `ironyard_repeatable`" + `; ` + "`deploy.write_image`" + ` of any agent; our agent's ` + "`erase_devices*`" + ` | the new agent begins it again, two times at most |
| any other, and the agent had confirmed that it began | the flow goes on behind it, as in Ironic; a line of history says so. The step may have rebooted the machine itself |
| any other, and the answer to the order was lost | the agent's list of commands shows whether it has begun. An agent that has started again since does not know: the step fails. Ironic fails it too |

## Maintenance in the middle of a flow

A flow begins no step while its node is in maintenance: a person may be at the machine ([decision 76](decisions/076-maintenance-parks-a-flow.md)).

| what | in maintenance | Ironic, by default |
|---|---|---|
| the step that runs | ends, or waits on; its deadline stands still | the same; a node in maintenance has no time limit |
| a step that has failed and is to be tried again | waits; it is tried afterwards. An abort ends the flow without another try, unless the BMC is at work | is tried again |
| a step that has failed, and ends the flow | the machine is left as it is until the maintenance ends, in the waiting state; an abort is done at once | the failure is carried out at once |
| the next step, of the ramdisk or out of band | waits. The state is the waiting one where there is such (` + "`clean wait`" + `); the history says ` + "`parked`" + ` and before which step | a step after a call of the agent waits; one out of band begins |
| an undeploy, a provide that were asked for in maintenance | run; the steps of the ramdisk's agent wait | the same |
| manage, adopt, inspect that were asked for in maintenance | run | run |
| deploy, rebuild, clean, service, rescue, unrescue | are refused | are refused |
| power, adjustments (boot device, boot mode, vendor methods), aborts | are done at once where the state accepts them; a node that is parked in ` + "`deleting`" + ` is locked | the same |
| the fault ` + "`power failure`" + `, which a rackd sets and takes back itself | parks nothing | is maintenance as any other |
| the end of the maintenance | the flow goes on with the step before which it stood; a step that waits has what was left of its deadline | the next call of the agent lets it go on; the time limit counts from the last call before |
| no rackd lives | central's watchdog ends no parked flow | – |

## What happens beside a flow

At each place of each flow of simulated machines (` + "`e2e/faults/places`" + `; at one of each with each event in make test, at all in make chaos).
Flows by other ways to boot and to deploy are killed only. Make test kills those at the steps that have these ways in them. A boot volume has no target here:
the virtual rack shows firmware that finds none (` + "`e2e/scenario`" + `):

| event | the flow |
|---|---|
| its rackd is killed | ends as without that |
| its rackd is killed, and the flow boots or deploys by virtual media (of an iDRAC and an iLO, too), HTTP boot, a program that firmware starts (` + "`http`" + `), TFTP (` + "`pxe`, `ilo-pxe`" + `), iSCSI, a volume, a ramdisk, an image of a CD, a partition image, ` + "`boot_option` `netboot`" + `, a container, an installer, a playbook, ` + "`custom-agent`" + ` or ` + "`autodetect`" + ` | ends as without that: one write, one start of what was written, and drives, volumes, boot device, what firmware loads by HTTP, secure boot where the instance asks for it, an ephemeral partition that stays and power as without that. Where firmware finds no medium because the rackd that served it has died, it may start the disk's old instance once |
| the agent's iSCSI target dies while rackd writes an image to it; at each place its rackd is killed as well | ends as without that: rackd has the agent export the disk again, and the image is on it once |
| its rackd is killed once the flow has nothing to do any more, and its instance starts from a medium of rackds, in a drive or by HTTP boot | ends as without that. A machine that has not read its medium by then stands still; another rackd puts in a medium or tells the firmware of it, and the next start finds it ([decision 138](decisions/138-media-of-instances-outlive-their-rackd.md)) |
| its rackd is killed, and the flow writes firmware by Redfish | ends as without that: each file is fetched and written once, also where the BMC starts again with it, or the machine restarts for it. Where the order was lost with its rackd, the step looks for its traces, and fails with what may have happened ([decision 75](decisions/075-an-order-to-a-bmc-is-given-once.md)) |
| its rackd is killed, and the flow has the BMC start again (` + "`reset_bmc`" + `) | ends as without that: the BMC is told once. Where the order was lost with its rackd, the step fails and says so |
| its rackd is killed, and the flow lends the machine's disk to another one (` + "`export_volume`" + `) until a hold ends | ends as without that: the disk is exported in the hold, and not after it |
| the node goes into maintenance and out of it | parks once the step that runs has ended, sends nothing to the machine until then, and ends as without that |
| an abort that is accepted | ends in the state of its failure, or where it was serviced in active, and says that it was aborted; or ends as without that and says that the abort came too late |
| an abort that is refused | ends as without that |
| a change of ` + "`driver_info`" + ` or of the conductor group | the change is refused while the node is locked, or taken up; the flow ends as without that. By another way to the BMC it writes nothing until the BMC there has told that it is that of the same machine. Else it fails, and leaves the machine that it has booted as it is |
| DELETE of the node | is refused while the flow runs; in maintenance it is accepted where the flow waits or is held, as in Ironic. The rackd that has the flow takes back the ramdisk's boot with its medium, and the boot of an instance that is not to be. The machine's power stays as it is. Where no rackd has the flow the machine is left as it is, and so it is where the node has no flow: undeploy it before |
| a person at the power button, an agent that reboots by itself | ends as without that; or fails, says why, and leaves the machine as the row of that failure says |
| a hold of the operator's, and the request to go on | all of this happens to flows that a hold stops, and to those that go on from one |

## Where Ironic differs for all flows

- A step ` + "`wait`" + ` of more than 1,800 s is refused. Ironic cuts it.
- Failed deploys, cleanings and inspections that were refused before anything was sent keep Ironic's states of failure, for clients wait for those. Only
  a rebuild of an active node goes back: its instance runs.
- Steps that a node's interfaces contribute are not cut short in a deploy unless they say that they may be. In Ironic a deploy step may be cut unless it says otherwise.
- The abort of service failed shows active when the instance was started. Ironic shows it before.
`
