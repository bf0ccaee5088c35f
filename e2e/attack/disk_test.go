package attack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// diskSize is the size of the file system that rackd-a keeps its data on.
const diskSize = "16m"

// smallDisk gives rackd-a a file system of its own, which can be filled.
func (y *yard) smallDisk() error {
	dir := y.file("data-rackd-a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+diskSize); err != nil {
		return fmt.Errorf("mount a small file system: %w", err)
	}
	y.ends = append(y.ends, func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return nil
}

// The disk of a rackd is full to the last byte: machines are given addresses, a deploy ends and says
// why, and all is well once there is room.
func TestFullDisk(t *testing.T) {
	long(t)
	y, ctx := theYard(t), t.Context()
	e := y.enrol(ctx, t, groupA, nil)
	y.available(ctx, t, e)
	if err := y.operator.set(ctx, e.id, "/instance_info", map[string]any{"image_source": "http://" + addresses["operator"] + ":8000/other", "image_os_hash_algo": "sha256",
		"image_os_hash_value": y.images.other.sha256, "image_disk_format": "raw"}); err != nil {
		t.Fatal(err)
	}
	pid := y.rackds["rackd-a"].PID()
	filler := y.file("data-rackd-a/filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(filler)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Fatalf("the disk was not filled: %v", err)
	}
	next := y.unused(t)
	var n node
	if err := y.operator.persist(ctx, "POST", "/v1/nodes", map[string]any{"name": next.Name(), "driver": next.Enrolment.Driver, "driver_info": next.Enrolment.DriverInfo, "conductor_group": groupA}, &n); err != nil {
		t.Fatal(err)
	}
	if err := y.operator.persist(ctx, "POST", "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": next.MAC}, nil); err != nil {
		t.Fatal(err)
	}
	reached, over := "an address", false
	if err := until(ctx, 5*time.Second, func(context.Context) error { return y.lease(next) }); err != nil {
		reached = "no address"
	}
	said, err := os.ReadFile(y.rackds["rackd-a"].Log())
	if err != nil {
		t.Fatal(err)
	}
	if reached == "no address" && !strings.Contains(string(said), syscall.ENOSPC.Error()) {
		reached, over = reached+", and no word in the log", true
	}
	judge(t, line{42, fullDisk, "a new machine asks for an address", reached, "an address, or none and the reason in the log", over})
	y.deploy(ctx, t, e)
	n, err = y.settled(ctx, e, deployEnds)
	reached, over = n.State+": "+n.LastError, err != nil
	if n.State != "active" && !strings.Contains(n.LastError, "space") && !strings.Contains(n.LastError, "room") && !strings.Contains(n.LastError, "full") {
		over = true
	}
	judge(t, line{42, fullDisk, "a deploy whose image is not in the cache", reached, "an end that names the reason", over})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if n.State != "active" {
		y.deploy(ctx, t, e)
		n, err = y.settled(ctx, e, deployEnds)
	}
	healed := err == nil && n.State == "active" && y.lease(next) == nil && y.rackds["rackd-a"].PID() == pid
	judge(t, line{42, fullDisk, "the same with room again", fmt.Sprintf("deployed: %s, the same process: %t", n.State, y.rackds["rackd-a"].PID() == pid), "deployed", !healed})
}
