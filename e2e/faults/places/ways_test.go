package places

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet"
	"github.com/ironyard/ironyard/ops/virtual/fleet/audit"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/fault"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/machine"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// volumeIQN is the target of the volumes that machines boot from.
const volumeIQN = "iqn.2026-11.org.example:volume"

// ways reports whether the flow boots or deploys by another way than ipxe and direct.
func (f flow) ways() bool { return f.interfaces != nil }

// by is a flow of nodes with other interfaces, pairs of kind and name.
func by(name string, f flow, pairs ...string) flow {
	f.name, f.interfaces = f.name+" "+name, map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		f.interfaces[pairs[i]] = pairs[i+1]
	}
	return f
}

// with is a flow of nodes with another instance.
func with(instance func(r *rig) map[string]any, f flow) flow {
	f.instance = instance
	return f
}

// onVolume is a flow of nodes that boot from a volume.
func onVolume(f flow) flow {
	f.volume = true
	f.instance = func(*rig) map[string]any { return map[string]any{} }
	return f
}

// toldByMedium is a flow of nodes that bring their ramdisk in an image of their own, which is told its boot on a second medium.
func toldByMedium(name string, f flow) flow {
	f = by(name, f, "boot", byMedium)
	f.told = true
	return f
}

// killedAt is a flow at whose steps make test kills, too.
func killedAt(f flow, steps ...string) flow {
	f.own = steps
	return f
}

// bare are an instance's kernel and ramdisk.
func bare(r *rig) map[string]any {
	return map[string]any{"kernel": r.files + "/kernel", "ramdisk": r.files + "/ramdisk", "ramdisk_kernel_arguments": "quiet"}
}

// partition is the image of a file system.
func partition(r *rig) map[string]any {
	return map[string]any{"image_source": r.image.URL, "image_checksum": r.image.SHA256, "image_disk_format": "raw", "image_type": "partition", "root_gb": 8}
}

// besideEphemeral is the image of a file system beside an ephemeral partition.
func besideEphemeral(r *rig) map[string]any {
	info := partition(r)
	info["ephemeral_gb"], info["ephemeral_format"] = 2, "ext4"
	return info
}

// keepIt says that the ephemeral partition stays. The first deploy cannot say so: there is none to keep.
var keepIt = request{"", `[{"op":"add","path":"/instance_info/preserve_ephemeral","value":true}]`, "active"}

// slowly is an image of a disk that takes a while to write.
func slowly(r *rig) map[string]any {
	_, sum := larger()
	return map[string]any{"image_source": r.files + largeImage, "image_checksum": sum, "image_disk_format": "raw"}
}

// targetDies is a flow whose machine's iSCSI target dies once, while the image is written to it.
func targetDies(f flow) flow {
	f.targets = 1
	f.breaks = func(faults *fault.Faults) { faults.KillTargets(f.targets) }
	return f
}

// disc is an image of a CD that starts an instance.
func disc(r *rig) map[string]any { return map[string]any{"boot_iso": r.files + instanceImage} }

// saidBare are an instance's kernel and ramdisk, which is said to be one.
func saidBare(r *rig) map[string]any {
	info := bare(r)
	info["ironic_ramdisk_deploy"] = true
	return info
}

// installed is what an installer installs.
func installed(r *rig) map[string]any {
	return map[string]any{"image_source": r.image.URL, "image_checksum": r.image.SHA256, "kernel": r.files + "/kernel", "ramdisk": r.files + "/ramdisk", "stage2": r.files + "/stage2"}
}

// contained is a container, which no machine here pulls.
func contained(*rig) map[string]any {
	return map[string]any{"image_source": "oci://registry.example/system:1", "image_disk_format": "bootc"}
}

const byMedium = "redfish-virtual-media"

var (
	deploying   = flow{name: "deploy", way: []request{manage, provide}, ask: deploy, end: "active"}
	rebuilding  = flow{name: "rebuild", way: []request{manage, provide, deploy}, ask: provision("rebuild", "active"), end: "active"}
	keeping     = flow{name: "rebuild", way: []request{manage, provide, deploy, keepIt}, ask: provision("rebuild", "active"), end: "active", ephemeral: 1}
	deleting    = flow{name: "delete", way: []request{manage, provide, deploy}, ask: provision("deleted", "available"), end: "available"}
	rescuing    = flow{name: "rescue", way: []request{manage, provide, deploy}, ask: rescue, end: "rescue"}
	unrescuing  = flow{name: "unrescue", way: []request{manage, provide, deploy, rescue}, ask: provision("unrescue", "active"), end: "active"}
	servicing   = flow{name: "service", way: []request{manage, provide, deploy}, ask: request{"/states/provision", `{"target":"service","service_steps":[{"interface":"power","step":"reboot"}]}`, "active"}, end: "active"}
	restarting  = flow{name: "reboot", way: []request{manage, provide, deploy}, ask: request{powerPath, `{"target":"rebooting"}`, "active"}, end: "active"}
	inspecting  = flow{name: "inspect", way: []request{manage}, ask: provision("inspect", "manageable"), end: "manageable"}
	cleaningOne = flow{name: "clean", way: []request{manage}, ask: provide, end: "available"}
	withDrive   = request{"/states/provision", `{"target":"active","configdrive":{"user_data":"#!/bin/sh\n"}}`, "active"}
	adopting    = flow{name: "adopt", way: []request{manage}, ask: provision("adopt", "active"), end: "active"}
	erasingOnly = flow{name: "deploy", way: []request{manage, provide}, ask: request{"/states/provision",
		`{"target":"active","deploy_steps":[{"interface":"deploy","step":"erase_devices_metadata","priority":70,"args":{}}]}`, "active"}, end: "active"}
	drivenOne = flow{name: "deploy", way: []request{manage, provide}, ask: withDrive, end: "active"}
)

// wayFlows boot and deploy by other ways than the network and a written image of a disk.
var wayFlows = []flow{
	killedAt(by("by a medium", deploying, "boot", byMedium), "deploy.deploy", "deploy.tear_down_agent", "deploy.boot_instance"),
	by("by a medium", rebuilding, "boot", byMedium),
	by("by a medium", deleting, "boot", byMedium),
	by("by a medium", inspecting, "boot", byMedium),
	by("by a medium", cleaningOne, "boot", byMedium),
	by("by a medium", rescuing, "boot", byMedium),
	by("by a medium", unrescuing, "boot", byMedium),
	by("by a medium", servicing, "boot", byMedium),

	killedAt(toldByMedium("by an image with parameters", deploying), "deploy.deploy", "deploy.tear_down_agent"),
	toldByMedium("by an image with parameters", deleting),
	toldByMedium("by an image with parameters", inspecting),
	toldByMedium("by an image with parameters", cleaningOne),
	toldByMedium("by an image with parameters", rescuing),
	toldByMedium("by an image with parameters", unrescuing),
	with(bare, by("of a ramdisk", deploying, "deploy", "ramdisk")),
	killedAt(with(bare, by("of a ramdisk on a medium", drivenOne, "deploy", "ramdisk", "boot", byMedium)), "deploy.deploy"),
	with(bare, by("of a ramdisk on a medium", deleting, "deploy", "ramdisk", "boot", byMedium)),
	with(bare, by("of a ramdisk on a medium", unrescuing, "deploy", "ramdisk", "boot", byMedium)),
	killedAt(with(bare, by("of a ramdisk on a medium", restarting, "deploy", "ramdisk", "boot", byMedium)), "boot.keep_media"),

	onVolume(by("of a volume by iPXE", deploying, "storage", "external")),
	killedAt(onVolume(by("of a volume by firmware", deploying, "storage", "external", "boot", byMedium)), "deploy.prepare_instance_boot", "deploy.boot_instance"),
	onVolume(by("of a volume by firmware", deleting, "storage", "external", "boot", byMedium)),
	onVolume(by("of a volume by firmware", rescuing, "storage", "external", "boot", byMedium)),
	onVolume(by("of a volume by firmware", unrescuing, "storage", "external", "boot", byMedium)),

	killedAt(by("by iscsi", deploying, "deploy", "iscsi"), "deploy.write_image"),
	by("by iscsi from a medium", deploying, "deploy", "iscsi", "boot", byMedium),
	killedAt(with(partition, by("of a partition image", deploying, "deploy", "direct")), "deploy.prepare_instance_boot"),
	killedAt(with(installed, by("by anaconda", deploying, "deploy", "anaconda")), "deploy.deploy"),
	with(contained, by("by bootc", deploying, "deploy", "bootc")),

	by("by http-ipxe", deploying, "boot", "http-ipxe"),
	by("by http-ipxe", rescuing, "boot", "http-ipxe"),
	killedAt(by("by redfish-https", deploying, "boot", "redfish-https"), "deploy.deploy", "deploy.boot_instance"),
	by("by redfish-https", rescuing, "boot", "redfish-https"),
	killedAt(with(bare, by("of a ramdisk by redfish-https", deploying, "deploy", "ramdisk", "boot", "redfish-https")), "deploy.deploy"),
	by("by custom-agent", erasingOnly, "deploy", "custom-agent"),
	by("by autodetect", deploying, "deploy", "autodetect"),
	with(saidBare, by("of a ramdisk by autodetect", deploying, "deploy", "autodetect")),
	with(contained, by("by autodetect as bootc", deploying, "deploy", "autodetect")),
	with(disc, by("of a CD", deploying, "deploy", "ramdisk")),
	with(disc, by("of a CD on a medium", deploying, "deploy", "ramdisk", "boot", byMedium)),
	with(disc, by("of a CD on a medium", deleting, "deploy", "ramdisk", "boot", byMedium)),
	with(bare, by("of a ramdisk", adopting, "deploy", "ramdisk")),
	with(bare, by("of a ramdisk on a medium", adopting, "deploy", "ramdisk", "boot", byMedium)),
	onVolume(by("of a volume by iPXE", adopting, "storage", "external")),
	onVolume(by("of a volume by iPXE", deleting, "storage", "external")),
	by("by iscsi", deleting, "deploy", "iscsi"),
	with(partition, by("of a partition image by iscsi", deploying, "deploy", "iscsi")),
	killedAt(with(besideEphemeral, by("of a partition image that keeps a partition", keeping, "deploy", "direct")), "deploy.write_image"),
	killedAt(with(slowly, targetDies(by("by iscsi whose target dies", deploying, "deploy", "iscsi"))), "deploy.write_image"),
}

// TestEveryPlaceOfWays kills the owner at every place of flows by other ways to boot and to deploy: virtual media, instances without a
// disk, volumes, HTTP boot, iSCSI, partition images, installers. Nothing is done twice. The machine is left as it is undisturbed: what is
// in its drives, what its firmware attaches and loads, its boot device, its partitions, its power. make test kills in
// TestEveryPlaceOnMachines at some of the places.
func TestEveryPlaceOfWays(t *testing.T) {
	if os.Getenv("IRONYARD_CHAOS") == "" {
		t.Skip("NOT RUN: kills some twelve hundred rackds; make chaos does, and make test kills at the places that are these ways' own")
	}
	r := newRig(t)
	r.addMachines(t, 4000, true)
	r.start(t, spareName, spare, "")
	r.killEverywhere(t, r.undisturbed(t, wayFlows))
	for _, f := range audit.Check(r.machines.Journal.After(0, 0)) {
		t.Error(f)
	}
}

// quickWays are the flows at whose own steps make test kills.
func quickWays() []flow {
	return slices.DeleteFunc(slices.Concat(wayFlows, firmwareWays), func(f flow) bool { return f.own == nil })
}

// owns leaves the places of a flow's own steps around what they do to the machine.
func owns(list []place) (kept []place) {
	for _, p := range list {
		_, step, _ := strings.Cut(p.detail, "/")
		if slices.Contains(p.flow.own, step) && slices.Contains([]string{"conductor.begun", "conductor.handle", "conductor.ran"}, p.point) {
			kept = append(kept, p)
		}
	}
	return kept
}

// ending is how a flow leaves its machine.
type ending struct {
	State, Image     string // where the machine rests, and what it runs
	On               bool
	Device           string
	Once             bool
	CD, Stick        string
	Attaches, Boots  string // volumes of the firmware, and its boot order
	HTTP             string // what its firmware boots by HTTP
	Secure           bool   // boot, from the next start on
	Lends            string // the target by which its disk is exported to another machine
	Disk             disk.Content
	OnDisk           string
	Ephemeral        disk.Ephemeral
	Targets          int    // of iSCSI that died
	Writes, Erasures uint64 // since the flow began
	Flashes          string // of firmware
	Starts           uint64 // of an instance, after the last agent and the last write
}

// begun is the newest record of the machines' journal, and 0 without machines.
func (r *rig) begun() uint64 {
	if r.machines == nil {
		return 0
	}
	return r.machines.Journal.Last()
}

// still waits until nothing of a boot moves.
func (r *rig) still(t *testing.T, m *fleet.Member) (s machine.Status) {
	t.Helper()
	r.until(t, 20*time.Second, "machine "+m.Name+" rests", func() (bool, string) {
		s = m.Machine.Status()
		return s.State != machine.Booting && s.State != machine.On, string(s.State)
	})
	return s
}

// rests waits until the machine moves no more, and returns how it is.
func (r *rig) rests(t *testing.T, f flow, id string, m *fleet.Member, begun uint64) (e ending) {
	t.Helper()
	s := r.still(t, m)
	e = ending{State: string(s.State), Image: s.Image, On: s.On, CD: r.inDrive(t, f, id, m.BMC.Inserted), Stick: r.inDrive(t, f, id, m.BMC.InsertedStick),
		Attaches: strings.Join(m.Machine.Attaches(), " ")}
	for _, record := range r.machines.Journal.After(begun, 0) {
		if record.Machine != m.Name {
			continue
		}
		switch record.Kind {
		case journal.WriteEnded:
			e.Writes++
			e.Starts = 0
		case journal.Erased:
			e.Erasures++
		case journal.TargetDied:
			e.Targets++
		case journal.AgentUp:
			e.Starts = 0 // firmware whose medium had died with its rackd may have started what was on the disk
		case journal.InstanceUp:
			e.Starts++
		}
	}
	e.Device, e.Once = m.Machine.BootOverride()
	uri := r.httpURI(t, m)()
	if f.secure && !strings.HasPrefix(uri, "https://") {
		t.Errorf("its firmware loads by HTTPS alone, and was told %q last", uri)
	}
	if e.HTTP = r.made(id, uri); e.Device == vbmc.HTTP {
		e.HTTP = r.inDrive(t, f, id, r.httpURI(t, m))
	}
	e.Disk, e.OnDisk = m.Disk.Holds()
	e.Ephemeral = m.Disk.Ephemeral()
	for _, f := range m.BMC.Flashes() {
		e.Flashes += f.Component + " " + f.Version + " "
	}
	secure, err := m.Machine.SecureBoot()
	if err != nil {
		t.Error(err)
	}
	e.Secure, e.Lends = secure.Next, m.Agent.Volume()
	options, _, err := m.Machine.BootOptions()
	if err != nil {
		t.Error(err)
	}
	for _, o := range options {
		e.Boots += o.Name + " "
	}
	return e
}

// said is what a machine's journal says, a record a line.
func (r *rig) said(m *fleet.Member, begun uint64) string {
	var b strings.Builder
	for _, record := range r.machines.Journal.After(begun, 0) {
		if record.Machine == m.Name {
			fmt.Fprintf(&b, "%s %s %s %s\n", record.Time.Format(time.StampMilli), record.Kind, record.Detail, record.Image)
		}
	}
	return b.String()
}

// machineSaid is what a failure tells of a machine; fake hardware has none.
func (r *rig) machineSaid(m *fleet.Member, begun uint64) string {
	if m == nil {
		return ""
	}
	return "; the machine says\n" + r.said(m, begun)
}

// guarded is how long a machine may be left with a medium at a rackd that has gone (rackd/mediaguard), and a while for the looks.
const guarded = 2 * time.Minute

// inDrive names the image in a drive, or the one that firmware loads by HTTP, without what differs from node to node. One of an instance
// answers, or another rackd will tell the BMC of its own.
func (r *rig) inDrive(t *testing.T, f flow, id string, drive func() string) (named string) {
	t.Helper()
	if r.made(id, drive()) == drive() {
		return drive()
	}
	if f.end == "active" {
		r.untilEvery(t, 500*time.Millisecond, guarded, "the image in the drive answers", func() (bool, string) {
			resp, err := r.images.Get(drive())
			if err != nil {
				return false, err.Error()
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK, drive() + ": " + resp.Status
		})
	}
	return r.made(id, drive())
}

// made is a URL without what differs from node to node, where a rackd made what is there for the node.
func (*rig) made(id, url string) string {
	_, file, made := strings.Cut(url, "/media/"+id+"/")
	if !made {
		return url
	}
	return "rackd's " + file[strings.LastIndex(file, "/")+1:]
}

// httpURI tells what a machine's firmware boots by HTTP.
func (*rig) httpURI(t *testing.T, m *fleet.Member) func() string {
	return func() string {
		t.Helper()
		uri, err := m.Machine.HTTPBootURI()
		if err != nil {
			t.Error(err)
		}
		return uri
	}
}

// startedAgain has a machine start once more that stands still. The rackd that served its medium died when the flow had nothing to do any
// more (docs/decisions/138).
func (r *rig) startedAgain(t *testing.T, p place, id string, m *fleet.Member) {
	t.Helper()
	over, from := p.point == "conductor.finish" || p.point == "conductor.result", m.BMC.Inserted
	if device, _ := m.Machine.BootOverride(); device == vbmc.HTTP {
		from = r.httpURI(t, m)
	}
	if !over || from() == "" || r.still(t, m).State != machine.Stuck {
		return
	}
	r.inDrive(t, p.flow, id, from)
	r.request(t, id, power("rebooting"))
	r.ends(t, id)
}
