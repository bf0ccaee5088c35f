package netboot_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
)

const (
	volumeName = "iqn.2026-11.org.example:boot"
	machineIQN = "iqn.2026-11.org.example:m1"
	chapUser   = "m1"
	chapSecret = "a${b}&|#||;\"$(x)"
	// what the target shows in its turn
	reverseUser   = "volume"
	reverseSecret = "its;own&${secret}"
)

// volumeMachine is a machine without disks, with the ways to its volume by their ports.
func volumeMachine(mode, secret string, ports ...int) netboot.Machine {
	way := func(port int) string { return fmt.Sprintf("iscsi:%s::%d:1:%s", self, port, volumeName) }
	var ways []string
	for _, p := range ports {
		ways = append(ways, way(p))
	}
	return netboot.Machine{UUID: ramdiskMachine.UUID, Name: "m1", State: "active", BootMode: mode, Order: bootorder.FromVolumes(bootorder.Volumes{
		Initiator: machineIQN, List: []bootorder.Volume{{Name: "boot", URIs: ways, User: chapUser, Secret: secret}}})}
}

// target serves a disk by tgtd, a foreign iSCSI target, to machines that know the secret.
func target(t *testing.T, disk string) {
	t.Helper()
	control := fmt.Sprint(os.Getpid() % 32000) // names tgtd's control socket
	tgtd := exec.Command("tgtd", "-f", "-C", control, "--iscsi", "portal="+self.String()+":3260")
	if err := tgtd.Start(); err != nil {
		t.Fatalf("%v (Debian's package tgt)", err)
	}
	t.Cleanup(func() {
		_ = tgtd.Process.Kill()
		_ = tgtd.Wait()
		for _, suffix := range []string{"", ".lock"} {
			_ = os.Remove("/var/run/tgtd/socket." + control + suffix)
		}
	})
	for _, args := range [][]string{
		{"--op", "new", "--mode", "target", "--tid", "1", "-T", volumeName},
		{"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk},
		{"--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"},
		{"--op", "new", "--mode", "account", "--user", chapUser, "--password", chapSecret},
		{"--op", "bind", "--mode", "account", "--tid", "1", "--user", chapUser},
		{"--op", "new", "--mode", "account", "--user", reverseUser, "--password", reverseSecret},
		{"--op", "bind", "--mode", "account", "--tid", "1", "--user", reverseUser, "--outgoing"},
	} {
		var out []byte
		var err error
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			out, err = exec.Command("tgtadm", append([]string{"-C", control, "--lld", "iscsi"}, args...)...).CombinedOutput()
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("tgtadm %s: %v: %s", args, err, out)
		}
	}
}

// Machines boot from a foreign target by iPXE: BIOS in make test, UEFI, which takes longer, in make hardware.
func TestFirmwareBootsVolumes(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots machines in QEMU; set IRONYARD_E2E=1")
	}
	if !inNamespace(t) {
		return
	}
	t.Run("BIOS", biosVolume)
	if os.Getenv("IRONYARD_HARDWARE") != "" {
		t.Run("UEFI", uefiVolume)
	}
}

// A machine without any disk boots from a foreign target. A wrong secret ends in words that say so, and the right one counts once the
// machine asks again. Nothing listens at the first of its ways then: it takes the second.
func biosVolume(t *testing.T) {
	disk := bootSector(t)
	if err := os.Truncate(disk, 32<<20); err != nil { // BIOS knows no disk of less than a cylinder
		t.Fatal(err)
	}
	target(t, disk)
	w := newWorld(t, volumeMachine("bios", "wrong", 3260), "/usr/lib/ipxe/ipxe.lkrn")
	w.boot("-device", biosCard)
	w.phases("dhcp", "script: volume, state active, by HTTP")
	w.says("Could not open SAN device: Operation not permitted")
	w.says("the target refuses")
	w.phases("script: volume, state active, by HTTP", fmt.Sprintf("volume: the machine has not booted its volume, and tries again every 10 s. Its console says why. Look whether the targets run at iscsi:%s::3260:1:%s, and let in the initiator %s ", self, volumeName, machineIQN))
	w.mu.Lock()
	w.machine = volumeMachine("bios", chapSecret, 3261, 3260)
	w.mu.Unlock()
	w.says("BOOTED THE DISK")
}

// mutual is a machine whose volume's target shows who it is.
func mutual(m netboot.Machine, secret string) netboot.Machine {
	m.Order.Volumes.List[0].TargetUser, m.Order.Volumes.List[0].TargetSecret = reverseUser, secret
	return m
}

// The target shows who it is as well. A machine that expects another secret of it does not boot.
func uefiVolume(t *testing.T) {
	target(t, espDisk(t))
	w := newWorld(t, mutual(volumeMachine("uefi", chapSecret, 3260), "another's secret"), "/usr/lib/ipxe/ipxe.efi")
	w.boot(ovmf(t)...)
	w.phases("dhcp", "script: volume, state active, by HTTP")
	w.says("Could not open SAN device: Permission denied")
	w.phases("script: volume, state active, by HTTP", fmt.Sprintf("volume: the machine has not booted its volume, and tries again every 10 s. Its console says why. Look whether the targets run at iscsi:%s::3260:1:%s, and let in the initiator %s ", self, volumeName, machineIQN))
	w.mu.Lock()
	w.machine = mutual(volumeMachine("uefi", chapSecret, 3261, 3260), reverseSecret)
	w.mu.Unlock()
	w.until("what is on the volume", func(_ []string, console string) bool {
		_, after, ok := strings.Cut(console, "attaching volume")
		return ok && strings.Contains(after, "iPXE initialising devices")
	})
}
