package scenario

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/operator"
	"github.com/ironyard/ironyard/protocol/provision"
)

// pair is a boot and a deploy interface on a machine of the rack, and why it is refused; empty: it deploys.
type pair struct{ machine, boot, deploy, refused string }

// What an instance without a disk is.
const (
	byFiles = "ramdisk" // a kernel and a ramdisk
	byImage = "ramdisk of an image"
	// autoFiles is a kernel and a ramdisk that autodetect finds to be such.
	autoFiles = "autodetect of a ramdisk"
)

// pairs are those that firmware here can show. Firmware of http-0 alone is told URLs by its BMC.
func pairs() (list []pair) {
	boots := map[string][]string{
		"bios-0": {"ipxe", "pxe", "redfish-virtual-media", "http", "http-ipxe", "redfish-https"},
		"uefi-0": {"ipxe", "pxe", "redfish-virtual-media"},
		"http-0": {"http", "http-ipxe", "redfish-https"},
	}
	for _, machine := range []string{"bios-0", "uefi-0", "http-0"} {
		for _, boot := range boots[machine] {
			for _, deploy := range []string{"direct", "iscsi", byFiles, byImage} {
				list = append(list, pair{machine, boot, deploy, refusal(machine, boot, deploy)})
			}
		}
	}
	// What these three deploy by follows from the instance, or is the request's or another program's. One boot interface shows it.
	for _, deploy := range []string{"autodetect", autoFiles, "custom-agent", "noop"} {
		list = append(list, pair{"bios-0", "ipxe", deploy, ""})
	}
	return list
}

// refusal is a part of the reason why a pair is refused.
func refusal(machine, boot, deploy string) string {
	switch byHTTP := boot == "http" || boot == "http-ipxe" || boot == "redfish-https"; {
	case machine == "bios-0" && byHTTP:
		return "UEFI"
	case boot == "http" && (deploy == byImage || deploy == byFiles):
		return "ramdisk_boot"
	}
	return ""
}

// Each pair of boot and deploy interface brings a machine to what its instance runs, or is refused before the machine is touched. The
// test prints how long each takes. What is no disk boots once more, after a power cycle. make boot runs it.
func TestEveryPairBoots(t *testing.T) {
	if os.Getenv("IRONYARD_BOOT") == "" {
		t.Skip("takes half an hour: make boot runs it")
	}
	table := []string{fmt.Sprintf("%-8s %-22s %-20s %s", "machine", "boot", "deploy", "from the request to the instance's words")}
	for _, p := range pairs() {
		t.Run(p.machine+"/"+p.boot+"/"+p.deploy, func(t *testing.T) {
			result := "failed"
			defer func() {
				table = append(table, fmt.Sprintf("%-8s %-22s %-20s %s", p.machine, p.boot, p.deploy, result))
			}()
			result = p.run(limit(t, 10*time.Minute), t)
		})
	}
	fmt.Println(strings.Join(table, "\n"))
}

// own are the fields of an instance without a disk; nil: it has one.
func (p pair) own(t *testing.T) map[string]string {
	t.Helper()
	switch p.deploy {
	case byFiles:
		return ownFiles()
	case byImage:
		return ownCD(t)
	case autoFiles:
		own := ownFiles()
		own["ironic_ramdisk_deploy"] = "true"
		return own
	}
	return nil
}

// run returns how long the pair took, or why it was refused.
func (p pair) run(ctx context.Context, t *testing.T) string {
	t.Helper()
	o := theRack.Operator
	id := enrolled(ctx, t, p.machine, func(m *operator.Machine) {
		deploy, _, _ := strings.Cut(p.deploy, " ")
		m.Interfaces = map[string]string{"boot": p.boot, "deploy": deploy}
	})
	if err := o.MakeAvailable(ctx, id); err != nil {
		t.Fatal(err)
	}
	words := marker
	if own := p.own(t); own != nil {
		words = ownCommandLine
		for field, value := range own {
			if err := o.Set(ctx, id, "/instance_info/"+field, value); err != nil {
				t.Fatal(err)
			}
		}
	} else if err := o.SetImage(ctx, id, qcow2()); err != nil {
		t.Fatal(err)
	}
	reason, err := o.Unfit(ctx, id)
	switch {
	case err != nil:
		t.Fatal(err)
	case p.refused != "" && !strings.Contains(reason, p.refused), p.refused == "" && reason != "":
		t.Fatalf("validate says %q, want %q", reason, p.refused)
	}
	console, began := consoleFromNow(t, p.machine), time.Now()
	err = o.Ask(ctx, id, "active", nil)
	if p.refused != "" {
		if err == nil {
			t.Fatal("the deploy was accepted")
		}
		if theRack.Serving.Machines[p.machine].On() {
			t.Error("the machine was switched on")
		}
		return "refused: " + reason
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Wait(ctx, id, provision.Active); err != nil {
		t.Fatal(err)
	}
	switch said := historyOf(ctx, t, id); p.deploy {
	case "custom-agent": // the request names no step that writes a disk
		if !strings.Contains(said, "into the instance, boot mode") || !strings.Contains(said, "ramdisk, state wait call-back") || strings.Contains(said, "write:") {
			t.Errorf("the agent was not brought up and taken down, or has written:\n%s", said)
		}
	case "noop":
		if theRack.Serving.Machines[p.machine].On() {
			t.Error("the machine was switched on")
		}
	default:
		if _, err := console.Wait(ctx, words); err != nil {
			t.Fatalf("no instance on the console: %v", err)
		}
	}
	took := time.Since(began)
	if p.deploy == byFiles { // which no disk keeps
		again := consoleFromNow(t, p.machine)
		if err := o.Power(ctx, id, "rebooting"); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Wait(ctx, words); err != nil {
			t.Fatalf("no instance on the console after a power cycle: %v", err)
		}
	}
	undeployed(ctx, t, id)
	return fmt.Sprintf("%.0f s", took.Seconds())
}
