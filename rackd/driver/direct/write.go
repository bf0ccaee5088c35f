package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/instancefiles"
)

// Facts that later steps read.
const (
	factRootDevice = "root_device"
	factRootUUID   = "root_uuid"
	factESPUUID    = "efi_system_part_uuid"
	// factReceipt is the receipt of driver.FactImage.
	factReceipt = "image_receipt"
)

// prepare brings an image into the rack's cache and notes which one it is. A rackd that takes the work over has a copy, and
// may have no way to the image's server.
func (i Interface) prepare(ctx context.Context, t *driver.Task, img image) (driver.DiskImage, error) {
	src := img.source
	src.Given, src.Machine = t.Facts[factReceipt], t.Agent.Host()
	src.Seekable = i.by != nil && i.by.Seeks()
	served, err := t.Images.PrepareDisk(ctx, src)
	if err != nil {
		return served, fmt.Errorf("node %s: get the image into the rack's cache: %w", t.Node.Label(), err)
	}
	t.Facts[driver.FactImage], t.Facts[factReceipt] = served.ID(), served.Receipt
	return served, i.canWrite(t.Node, img, served)
}

// fetchImage gets the image into the rack's cache. writeImage asks for it again: by
// then another rackd may run the work.
func (i Interface) fetchImage(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	img, err := imageOf(t.Node)
	if err != nil {
		return driver.Outcome{}, err
	}
	served, err := i.prepare(ctx, t, img)
	if err != nil {
		return driver.Outcome{}, err
	}
	if loadsKernel(t.Node) {
		fetch := instancefiles.FetchAhead // a rebuild that fails before it has touched the machine leaves the instance of before
		if t.Deploys {                    // there is none, and a rackd of before looks for the files where Fetch notes them
			fetch = instancefiles.Fetch
		}
		if err := fetch(ctx, t); err != nil {
			return driver.Outcome{}, err
		}
	}
	said := "in the rack's cache, verified"
	if served.Converted != "" {
		said = fmt.Sprintf("in the rack's cache, verified, converted from %s to %s", served.Converted, served.Format)
	}
	if served.Unpacked != "" {
		said = fmt.Sprintf("in the rack's cache, verified, unpacked from %s", served.Unpacked)
	}
	t.Record.Phase("image", said)
	return driver.Done(), nil
}

// writeImage has the agent write the image and looks until it has.
func (i Interface) writeImage(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	img, err := imageOf(t.Node)
	if err == nil {
		err = instancefiles.GiveAhead(t)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if i.by != nil {
		return i.byWriter(ctx, t, img)
	}
	h := running{ID: t.WorkID + "/write_image"}
	if err := reload(t, &h); err != nil {
		return driver.Outcome{}, err
	}
	cmd, saw, err := follow(ctx, t, &h, order{
		name:   agentapi.CmdPrepareImage,
		params: func() (any, error) { return i.offer(ctx, t, img) },
		save:   func() error { return t.Record.SaveHandle(ctx, h) },
	})
	if failed, ok := errors.AsType[*driver.FailedError](err); ok && failed.Type == driver.WrongChecksum && !h.Again {
		return i.onceMore(ctx, t, failed)
	}
	if err != nil {
		return driver.Outcome{}, err
	}
	if saw != succeeded {
		return i.later(t), nil
	}
	written, err := resultOf(cmd.Result)
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: the agent wrote the image, but its result cannot be read: %w", t.Node.Label(), err)
	}
	wrote(t, written)
	if img.partitions != nil {
		if err := i.partitionUUIDs(ctx, t, written); err != nil {
			return driver.Outcome{}, err
		}
	}
	return driver.Done(), nil
}

// partitionUUIDs notes by which names the boot loader of a partition image finds its partitions. ironic-python-agent tells them
// when it is asked.
func (i Interface) partitionUUIDs(ctx context.Context, t *driver.Task, written agentapi.PrepareImageResult) error {
	if written.PartitionUUIDs == nil {
		cmd, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/get_partition_uuids", agentapi.CmdPartitionUUIDs, struct{}{})
		if err != nil {
			return fmt.Errorf("node %s: ask the agent for the partitions that it has made: %w", t.Node.Label(), err)
		}
		if written.PartitionUUIDs, err = uuidsOf(cmd.Result); err != nil {
			return fmt.Errorf("node %s: the agent wrote the image, and does not say to which partitions: %w", t.Node.Label(), err)
		}
	}
	if written.Root != "" {
		t.Facts[factRootUUID] = written.Root
	}
	if t.Facts[factRootUUID] == "" {
		return fmt.Errorf("node %s: the agent wrote the partition image, and tells no identifier of the root file system, so no boot loader can be installed: is the image's file system one that it knows?", t.Node.Label())
	}
	t.Facts[factESPUUID] = written.ESP
	return nil
}

// uuidsOf reads the result of standby.get_partition_uuids, which ironic-python-agent wraps once more.
func uuidsOf(raw json.RawMessage) (*agentapi.PartitionUUIDs, error) {
	var said struct {
		agentapi.PartitionUUIDs
		Result *agentapi.PartitionUUIDs `json:"result"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return nil, err
	}
	if said.Result != nil {
		return said.Result, nil
	}
	return &said.PartitionUUIDs, nil
}

// onceMore verifies an image that an agent got with a wrong checksum, and gives the command a second
// time. The cache fetches the image again if its copy is damaged; else the damage was done on the way.
func (i Interface) onceMore(ctx context.Context, t *driver.Task, failed error) (driver.Outcome, error) {
	algo, value, _ := strings.Cut(t.Facts[driver.FactImage], "-")
	whole, err := t.Images.Verify(ctx, driver.ImageSource{HashAlgo: algo, HashValue: value})
	if err != nil {
		return driver.Outcome{}, fmt.Errorf("node %s: %w; verifying it in the rack's cache: %w", t.Node.Label(), failed, err)
	}
	said := "arrived with a wrong checksum; the rack's copy is damaged and is fetched again"
	if whole {
		said = "arrived with a wrong checksum; the rack's copy is whole and is sent again"
	}
	t.Record.Phase("image", said)
	if err := t.Record.SaveHandle(ctx, running{ID: t.WorkID + "/write_image/again", Again: true}); err != nil {
		return driver.Outcome{}, err
	}
	return i.later(t), nil
}

// inWords is what ironic-python-agent says when it has written an image.
var inWords = regexp.MustCompile(`written to device (\S+)(?:\s+root_uuid=(\S+))?`)

// resultOf reads where the image is: in fields, or in the words of ironic-python-agent.
func resultOf(raw json.RawMessage) (written agentapi.PrepareImageResult, err error) {
	if err := json.Unmarshal(raw, &written); err != nil || written.RootDevice != "" {
		return written, err
	}
	var said struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return written, err
	}
	if found := inWords.FindStringSubmatch(said.Result); found != nil {
		written.RootDevice = found[1]
		if found[2] != "None" {
			written.RootUUID = found[2]
		}
	}
	return written, nil
}

// offer fetches the image into the rack's cache and says where the agent gets it.
func (i Interface) offer(ctx context.Context, t *driver.Task, img image) (agentapi.PrepareImageParams, error) {
	served, err := i.prepare(ctx, t, img)
	if err != nil {
		return agentapi.PrepareImageParams{}, err
	}
	drive, err := t.ConfigDrive(ctx)
	if err != nil {
		return agentapi.PrepareImageParams{}, fmt.Errorf("node %s: get the config drive: %w", t.Node.Label(), err)
	}
	known, err := knownDisks(t)
	if err != nil {
		return agentapi.PrepareImageParams{}, err
	}
	p := img.params(t.Node, known, served, drive)
	p.ImageInfo.VolumesChanged = volumesChanged(t)
	return p, nil
}

// reload reads the step's handle into h, if there is one.
func reload(t *driver.Task, h any) error {
	raw := t.Record.Handle()
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, h); err != nil {
		return fmt.Errorf("node %s: the step's handle %q cannot be read: %w", t.Node.Label(), raw, err)
	}
	return nil
}

// factReadBack says that the agent has flushed the image to the disk and read it back.
const factReadBack = "image_read_back"

// farewell is the handle of tear_down_agent.
type farewell struct {
	// Synced: the agent has written out everything; from then on the machine may
	// lose its power at any moment.
	Synced bool `json:"synced"`
}

// tearDownAgent has the agent write out everything and switch the machine off.
func (i Interface) tearDownAgent(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	var h farewell
	if err := reload(t, &h); err != nil {
		return driver.Outcome{}, err
	}
	if t.Facts[driver.FactRestarted] != "" && t.Facts[factReadBack] != "" {
		// What was written was flushed and read back before, and the agent is gone with the ramdisk.
		t.Record.Phase("tear down", "there is no agent to say farewell to: a request has restarted the machine, or switched it off")
		if t.StaysOn() {
			return driver.Done(), nil
		}
		return driver.Done(), i.set.Bringup.Reach(ctx, t, driver.PowerOff)
	}
	if !h.Synced {
		if _, err := t.Agent.Call(ctx, t.Fence, t.WorkID+"/sync", agentapi.CmdSync, struct{}{}); err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: write out the disk's caches: %w", t.Node.Label(), err)
		}
		h.Synced = true
		if err := t.Record.SaveHandle(ctx, h); err != nil {
			return driver.Outcome{}, err
		}
	}
	if t.StaysOn() {
		return driver.Done(), nil // boot_instance resets it
	}
	// A machine that does not switch itself off is switched off by its BMC.
	if _, err := t.Agent.Start(ctx, t.Fence, t.WorkID+"/power_off", agentapi.CmdPowerOff, struct{}{}); err != nil && patience(err) != nil {
		t.Record.Phase("power off", fmt.Sprintf("the agent does not do it: %v", err))
	}
	if err := i.set.Bringup.OffAfter(ctx, t); err != nil {
		return driver.Outcome{}, err
	}
	return driver.Done(), nil
}
