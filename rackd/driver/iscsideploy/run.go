package iscsideploy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/direct"
	"github.com/ironyard/ironyard/rackd/iscsi"
)

const (
	// slice is how long one run of the step writes.
	slice = time.Second
	// fenceEvery is how often the fence is asked within it.
	fenceEvery = 250 * time.Millisecond
	// keepEvery is how often progress is flushed and kept for a successor.
	keepEvery = 10 * time.Second
	// agains is how often the image is written once more from its start.
	agains = 2
	// resumeAfter is when a write goes on whose session was lost.
	resumeAfter = 5 * time.Second
)

// handle is that of the step.
type handle struct {
	// Disk is the agent's name of the exported disk; Done is how much of the image is flushed to it.
	Disk string `json:"disk,omitempty"`
	Done int64  `json:"done,omitempty"`
	// Image is the ID of the image that was begun.
	Image string `json:"image,omitempty"`
	// Whole: all of the image is on the disk, Size bytes of it, and was read back.
	Whole bool  `json:"whole,omitempty"`
	Size  int64 `json:"size,omitempty"`
	// Device is what the kernel there calls the disk.
	Device string `json:"device,omitempty"`
	Again  int    `json:"again,omitempty"`
	// Broke says how the session before ended, where it was lost. If there is no other, that is what went wrong.
	Broke string `json:"broke,omitempty"`
	// Failed is why the step fails, once the agent has wiped the disk.
	Failed string `json:"failed,omitempty"`
}

// run is one run of the step.
type run struct {
	w     *Writer
	t     *driver.Task
	order direct.Order
	h     handle
}

func (r *run) do(ctx context.Context) (written agentapi.PrepareImageResult, out driver.Outcome, err error) {
	if raw := r.t.Record.Handle(); raw != nil {
		if err := json.Unmarshal(raw, &r.h); err != nil {
			return written, out, fmt.Errorf("node %s: the step's handle %q cannot be read: %w", r.t.Node.Label(), raw, err)
		}
		if r.h.Done < 0 || r.h.Size < 0 || r.h.Again < 0 { // less than nothing would leave what is on the disk, and count the tries for ever
			return written, out, fmt.Errorf("node %s: the step's handle %q is damaged, for it counts below zero: deploy the node again", r.t.Node.Label(), raw)
		}
	}
	if r.h.Failed != "" {
		out, err = r.wipe(ctx, errors.New(r.h.Failed))
		return written, out, err
	}
	if !r.h.Whole {
		out, err = r.write(ctx)
		if _, waits := out.Waiting(); err != nil || waits {
			return written, out, err
		}
	}
	return r.finish(ctx)
}

func (r *run) save(ctx context.Context) error { return r.t.Record.SaveHandle(ctx, r.h) }

// soon is when the step goes on.
func soon() driver.Outcome { return driver.Wait(time.Millisecond) }

// write brings the image a slice further.
func (r *run) write(ctx context.Context) (driver.Outcome, error) {
	tr, full := r.w.take(r.t.WorkID)
	if full {
		r.t.Record.Phase("write", fmt.Sprintf("waits for one of the %d images that this rackd writes", most))
		return driver.Wait(asksEvery), r.heard(ctx)
	}
	if tr == nil {
		var err error
		if tr, err = r.begin(ctx); err != nil || tr == nil {
			r.w.yield(r.t.WorkID)
			if errors.Is(err, driver.ErrBusy) {
				return r.busy(), nil
			}
			if r.h.Broke != "" && errors.Is(err, driver.ErrUnreachable) {
				err = fmt.Errorf("%w. Before that %s", err, r.h.Broke)
			}
			r.ended(err)
			return soon(), err
		}
	}
	ended, err := r.slice(ctx, tr)
	if err == nil && !ended {
		r.w.put(r.t.WorkID, tr)
		return soon(), nil
	}
	if err == nil {
		err = r.seal(ctx, tr)
	}
	r.w.close(r.t.WorkID, tr)
	if err != nil {
		r.w.yield(r.t.WorkID)
		out, err := r.failed(ctx, tr, err)
		r.ended(err)
		return out, err
	}
	r.w.release(r.t.WorkID)
	return driver.Done(), nil
}

// ended has a work whose step fails for good hold up no other.
func (r *run) ended(err error) {
	if err != nil && !errors.Is(err, driver.ErrUnreachable) {
		r.w.release(r.t.WorkID)
	}
}

// heard asks the agent of a node that waits for its place: the answer moves the deadline of the node's state. Silence is no error, so
// that the deadline decides how long that may go on.
func (r *run) heard(ctx context.Context) error {
	if !r.w.hears(r.t.WorkID) {
		return nil
	}
	if _, err := r.t.Agent.Commands(ctx); err != nil && (!errors.Is(err, driver.ErrUnreachable) || errors.Is(err, driver.ErrFenced)) {
		return fmt.Errorf("node %s: ask the agent while its image waits for one of %d places: %w", r.t.Node.Label(), most, err)
	}
	return nil
}

// busy waits for what the agent does. It may still be what an owner before has asked for, or this one before a lost answer. The refusal
// moves no deadline, so a command that hangs ends the step.
func (r *run) busy() driver.Outcome {
	r.t.Record.Phase("agent", "it is busy with a command of before; the step waits for its end")
	return driver.Wait(asksEvery)
}

// slice writes for a while, and keeps how far it is.
func (r *run) slice(ctx context.Context, tr *transfer) (ended bool, err error) {
	var asked time.Time
	fence := func() error {
		if time.Since(asked) < fenceEvery {
			return nil
		}
		asked = time.Now()
		return r.t.Fence.Check()
	}
	if err := fence(); err != nil {
		return false, err
	}
	if ended, err = tr.step(ctx, time.Now().Add(slice), fence); err != nil {
		return false, err
	}
	took := time.Since(tr.begun).Seconds()
	r.t.Record.Progress(agentapi.Progress{DoneBytes: tr.off, TotalBytes: max(tr.src.size(), 0), Seconds: took, MBPerSec: float64(tr.off-tr.resume) / 1e6 / max(took, 0.001)})
	if time.Since(tr.saved) < keepEvery || ended {
		return ended, nil
	}
	if err := tr.flush(ctx); err != nil {
		return false, err
	}
	// The answer of the agent moves the deadline: the write gets on.
	if _, _, err := r.t.Agent.Command(ctx, tr.command); err != nil {
		return false, err
	}
	tr.saved = time.Now()
	if tr.flushs > r.h.Done {
		r.h.Done = tr.flushs
		return false, r.save(ctx)
	}
	return false, nil
}

// seal makes the image whole.
func (r *run) seal(ctx context.Context, tr *transfer) error {
	if err := r.t.Fence.Check(); err != nil {
		return err
	}
	if err := tr.seal(ctx); err != nil {
		return err
	}
	r.h.Whole, r.h.Size, r.h.Done = true, tr.off, tr.off
	return r.save(ctx)
}

// failed judges an error of the write. What a new session may cure is unreachable; else the disk is wiped and let go.
func (r *run) failed(ctx context.Context, tr *transfer, err error) (driver.Outcome, error) {
	network := isNetwork(err)
	if network {
		err = tr.broke(err)
	}
	broke := err
	err = fmt.Errorf("node %s: write the image by iSCSI: %w", r.t.Node.Label(), err)
	if errors.Is(err, driver.ErrFenced) || errors.Is(err, driver.ErrUnreachable) || ctx.Err() != nil {
		return driver.Outcome{}, err
	}
	_, damaged := errors.AsType[*damagedError](err)
	if damaged && r.h.Again < agains {
		if _, verr := r.verify(ctx); verr == nil {
			r.t.Record.Phase("image", "the rack's copy was damaged and is fetched again")
			return soon(), r.again(ctx)
		}
	}
	_, status := errors.AsType[*iscsi.StatusError](err)
	_, different := errors.AsType[*differentError](err)
	if !damaged && !status && !different && network {
		r.h.Broke = broke.Error()
		r.t.Record.Phase("iscsi", r.h.Broke)
		if r.h.Done > tr.resume { // a session that brought the image further takes none of the step's tries: the image's size bounds how many there are
			return driver.Wait(resumeAfter), r.save(ctx)
		}
		return driver.Outcome{}, errors.Join(fmt.Errorf("%w: %w", driver.ErrUnreachable, err), r.save(ctx))
	}
	return r.wipe(ctx, err)
}

// wipe has the agent end the target and wipe the disk's ends, so that it does not boot, because of an error. It returns that. An agent that
// is busy is asked again by the step's next run, or by its next owner.
func (r *run) wipe(ctx context.Context, err error) (driver.Outcome, error) {
	_, werr := r.t.Agent.Call(ctx, r.t.Fence, r.t.WorkID+"/iscsi/stop/"+uuid.NewString(), agentapi.CmdStopISCSI, agentapi.StopISCSIParams{Disk: r.h.Disk})
	if errors.Is(werr, driver.ErrBusy) {
		r.h.Failed = err.Error()
		return r.busy(), r.save(ctx)
	}
	if werr != nil {
		err = fmt.Errorf("%w; and the disk could not be wiped: %w", err, werr)
	}
	return driver.Outcome{}, err
}

// verify has the cache compare its file with the checksum; whole is false where it was damaged, and is fetched again.
func (r *run) verify(ctx context.Context) (whole bool, err error) {
	algo, value, _ := strings.Cut(r.t.Facts[driver.FactImage], "-")
	return r.t.Images.Verify(ctx, driver.ImageSource{HashAlgo: algo, HashValue: value})
}

// again has the image written from its start.
func (r *run) again(ctx context.Context) error {
	r.h = handle{Again: r.h.Again + 1}
	return r.save(ctx)
}

// begin has the agent export the disk, and logs in. A nil transfer: the handle has changed, and the step begins again.
func (r *run) begin(ctx context.Context) (*transfer, error) {
	img, err := r.order.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	if r.h.Done > 0 && r.h.Image != img.ID() {
		if r.h.Again >= agains {
			return nil, fmt.Errorf("node %s: its image was another one %d times while it was written: give the image by a checksum, and not by an address whose content changes", r.t.Node.Label(), agains+1)
		}
		r.t.Record.Phase("image", "it is another one than what is on the disk so far, and is written from its start")
		return nil, r.again(ctx)
	}
	r.h.Image = img.ID()
	files, ok := r.t.Images.(driver.ImageFiles)
	if !ok {
		return nil, fmt.Errorf("node %s: this rackd has no images of its own to write: %w", r.t.Node.Label(), driver.ErrUnsupported)
	}
	f, done, err := files.File(img.ID())
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", r.t.Node.Label(), err)
	}
	src, err := openSource(f, img)
	if err != nil {
		done()
		if r.h.Again < agains {
			if whole, verr := r.verify(ctx); verr == nil && !whole {
				r.t.Record.Phase("image", "the rack's copy was damaged and is fetched again")
				return nil, r.again(ctx)
			}
		}
		return nil, fmt.Errorf("node %s: %w", r.t.Node.Label(), err)
	}
	if size := src.size(); size > 0 && r.h.Done > size {
		src.close()
		done()
		if r.h.Again >= agains {
			return nil, fmt.Errorf("node %s: the step's handle is damaged, for it says that %d bytes of %d are on the disk, and the image was begun %d times: deploy the node again", r.t.Node.Label(), r.h.Done, size, agains+1)
		}
		r.t.Record.Phase("image", fmt.Sprintf("the checkpoint says that %d bytes of %d are on the disk, so it is damaged: the image is written from its start", r.h.Done, size))
		return nil, r.again(ctx)
	}
	tr, err := r.export(ctx, src, r.order.Info(img))
	if tr == nil || err != nil {
		src.close()
		done()
		return nil, err
	}
	tr.done = done
	return tr, nil
}

// startError says it in Ironic's words.
type startError struct {
	node string
	err  error
}

func (e *startError) Error() string {
	return fmt.Sprintf("Failed to start the iSCSI target to deploy the node %s. Error: %v", e.node, e.err)
}
func (e *startError) Unwrap() error { return e.err }

// secret is one that is used once; it has 128 bits.
func secret() string { return rand.Text() }

// export asks the agent for the disk and opens a session on it.
func (r *run) export(ctx context.Context, src source, img agentapi.ImageInfo) (*transfer, error) {
	n := r.t.Node
	id := uuid.NewString()
	p := agentapi.StartISCSIParams{IQN: "iqn.2008-10.org.openstack:" + id, PortalPort: r.w.set.Port, WipeDiskMetadata: r.h.Done == 0, Image: img, ImageBytes: src.size(),
		Initiator: "iqn.2026-11.dev.ironyard:" + uuid.NewString(), User: "rackd-" + id, Secret: secret(), TargetUser: "agent-" + id, TargetSecret: secret()}
	partition := img.ImageType == agentapi.ImagePartition
	if partition {
		var err error
		if p.ConfigDrive, err = r.t.ConfigDrive(ctx); err != nil {
			return nil, fmt.Errorf("node %s: get the config drive: %w", n.Label(), err)
		}
	}
	command := r.t.WorkID + "/iscsi/" + id
	cmd, err := r.t.Agent.Call(ctx, r.t.Fence, command, agentapi.CmdStartISCSI, p)
	if err != nil {
		return nil, &startError{n.UUID, err}
	}
	var got agentapi.StartISCSIResult
	if err := json.Unmarshal(cmd.Result, &got); err != nil || got.Disk == "" || got.Port == 0 {
		return nil, fmt.Errorf("node %s: the agent does not say which disk it exports and how (%v). It is not Ironyard's: use deploy_interface direct with it", n.Label(), err)
	}
	if partition && got.RootBytes == 0 {
		return nil, fmt.Errorf("node %s: its agent does not say where the root partition lies, so it is older than this rackd: build the ramdisk again (ironyard ramdisk build)", n.Label())
	}
	if r.h.Done > 0 && got.Disk != r.h.Disk { // a disk that was wiped has a new name in any case
		if r.h.Again >= agains {
			return nil, fmt.Errorf("node %s: the agent has started again %d times while the image was written: look at the machine's console", n.Label(), agains+1)
		}
		r.t.Record.Phase("agent", "it has started again; the image is written from its start")
		return nil, r.again(ctx)
	}
	r.h.Disk, r.h.Device = got.Disk, got.RootDevice
	if err := r.save(ctx); err != nil {
		return nil, err
	}
	return r.connect(ctx, src, p, got, cmd.ID)
}

func (r *run) connect(ctx context.Context, src source, p agentapi.StartISCSIParams, got agentapi.StartISCSIResult, command string) (*transfer, error) {
	at := net.JoinHostPort(r.t.Agent.Host(), strconv.Itoa(got.Port))
	s, err := iscsi.Connect(ctx, iscsi.Target{Address: at, IQN: p.IQN, LUN: got.LUN, Initiator: p.Initiator,
		CHAP: iscsi.CHAP{User: p.User, Secret: p.Secret, TargetUser: p.TargetUser, TargetSecret: p.TargetSecret}}, iscsi.Options{Stall: r.w.set.Stall})
	if err != nil {
		return nil, r.unreached(ctx, err)
	}
	d, err := s.Disk(ctx)
	if err != nil {
		s.Close()
		return nil, r.unreached(ctx, err)
	}
	tr := newTransfer(s, d, src)
	if got.RootBytes != 0 {
		if err := tr.within(got.RootOffset, got.RootBytes); err != nil {
			s.Close()
			return nil, fmt.Errorf("node %s: %w", r.t.Node.Label(), err)
		}
	}
	tr.image, tr.device, tr.at, tr.command, tr.resume = r.h.Image, got.RootDevice, at, command, r.h.Done
	what := fmt.Sprintf("disk %s is exported to this rackd", got.RootDevice)
	if tr.resume > 0 {
		what += fmt.Sprintf("; the write goes on behind %d MB", tr.resume/1e6)
	}
	r.t.Record.Phase("iscsi", what)
	r.h.Broke = "" // this session is open: what goes wrong now has a cause of its own
	return tr, nil
}

// unreached is an error of a login. Credentials that are refused, of a target that was just made, are a fault that stays.
func (r *run) unreached(ctx context.Context, err error) error {
	err = fmt.Errorf("node %s: %w. Check that this rackd reaches the machine's port %d", r.t.Node.Label(), err, r.w.set.Port)
	if ctx.Err() != nil || errors.Is(err, iscsi.ErrDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

// isNetwork reports whether an error is of the session, and not of the disk, the image or the bus.
func isNetwork(err error) bool {
	_, silent := errors.AsType[*iscsi.SilentError](err)
	_, lost := errors.AsType[*iscsi.LostError](err)
	return silent || lost
}

// finish ends the target and has the agent make an instance's disk of it.
func (r *run) finish(ctx context.Context) (written agentapi.PrepareImageResult, out driver.Outcome, err error) {
	drive, err := r.t.ConfigDrive(ctx)
	if err != nil {
		return written, out, fmt.Errorf("node %s: get the config drive: %w", r.t.Node.Label(), err)
	}
	cmd, err := r.t.Agent.Call(ctx, r.t.Fence, r.t.WorkID+"/iscsi/finish/"+r.h.Disk, agentapi.CmdFinishISCSI, agentapi.FinishISCSIParams{Disk: r.h.Disk, ConfigDrive: drive, ImageBytes: r.h.Size})
	if gone, is := errors.AsType[*driver.FailedError](err); is && gone.Type == agentapi.FaultISCSIGone && r.h.Again < agains {
		r.t.Record.Phase("agent", "it has started again; the image is written from its start")
		return written, soon(), r.again(ctx)
	}
	if errors.Is(err, driver.ErrBusy) {
		return written, r.busy(), nil
	}
	if err != nil {
		err = fmt.Errorf("node %s: finish the image on its disk: %w", r.t.Node.Label(), err)
		if _, refused := errors.AsType[*driver.FailedError](err); refused { // the image is whole, and would boot as it is
			out, err = r.wipe(ctx, err)
		}
		return written, out, err
	}
	if err := json.Unmarshal(cmd.Result, &written); err != nil || written.RootDevice == "" {
		return written, out, fmt.Errorf("node %s: the agent has finished the image, but its result cannot be read (%v)", r.t.Node.Label(), err)
	}
	took := max(time.Since(r.t.Entered).Seconds(), 0.001)
	written.Written = agentapi.Progress{DoneBytes: r.h.Size, TotalBytes: r.h.Size, Seconds: took, MBPerSec: float64(r.h.Size) / 1e6 / took}
	return written, driver.Done(), nil
}
