package ramdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/ironyard/ironyard/agent/command"
	"github.com/ironyard/ironyard/agent/deploy"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// exported is the disk that a rackd writes to: a file, by a target of its own (tgtd). The real agent's target is the kernel's.
type exported struct {
	id     string
	by     disk.By
	image  string // that is being written
	target *tgtd
	parts  *agentapi.Partitions // around the image; nil: it is of a whole disk
}

// rootOffset is where the root partition begins of a disk that gets a partition image. The other partitions are not made.
const rootOffset = mib

// abandon ends the target with the agent. Its disk is torn if the machine has lost its power, or was not finished.
func (r *run) abandon(powered bool) {
	e := r.exported
	if e == nil {
		return
	}
	e.target.kill()
	r.exported = nil
	gone, end := context.WithCancelCause(context.Background())
	end(errors.New("the agent has ended while its disk was exported"))
	if powered {
		gone = context.Background()
	}
	_ = r.Disk.End(gone, e.by, e.image, errors.New("the agent has ended while its disk was exported"))
}

func (r *run) file() string { return filepath.Join(r.Scratch, r.Machine+".disk") }

func (r *run) startISCSI(ctx context.Context, by disk.By, c command.Call) (any, error) {
	var p agentapi.StartISCSIParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	if r.Scratch == "" {
		return nil, &deploy.ParamError{Reason: "this machine is simulated and exports no disk"}
	}
	r.takeBack()
	e := r.exported
	if e != nil {
		e.target.kill() // one target at most
		e.target = nil
	}
	parts := p.Image.Partitions
	if err := r.refusesParts(parts, p.ImageBytes); err != nil {
		return nil, err
	}
	if p.WipeDiskMetadata {
		if err := os.Remove(r.file()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	switch {
	case e == nil: // a new agent knows of no write
		e = &exported{id: uuid.NewString(), by: by, image: p.Image.HashValue}
		r.begins(e.by, e.image, parts)
	case p.WipeDiskMetadata || (e.parts == nil) != (parts == nil) || parts != nil && *e.parts != *parts: // another rackd begins the same write
		e.id = uuid.NewString()
	}
	r.exported, e.parts = e, parts
	var err error
	if e.target, err = r.export(ctx, p); err != nil {
		e.target = nil
		return nil, err
	}
	e.target.watch(r, by, p.ImageBytes)
	told := agentapi.StartISCSIResult{IQN: p.IQN, RootDevice: r.Inventory.Disks[0].Name, Disk: e.id, Port: e.target.port, LUN: 1}
	if e.parts != nil {
		told.RootOffset, told.RootBytes = rootOffset, e.parts.RootMB*mib
	}
	return told, nil
}

func (r *run) finishISCSI(ctx context.Context, _ disk.By, c command.Call) (any, error) {
	var p agentapi.FinishISCSIParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	e := r.exported
	if e == nil || e.id != p.Disk {
		return nil, &deploy.GoneError{}
	}
	e.target.kill()
	e.target = nil
	f, err := os.Open(r.file())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if e.parts != nil {
		if _, err := f.Seek(rootOffset, io.SeekStart); err != nil {
			return nil, err
		}
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, f, p.ImageBytes); err != nil {
		return nil, err
	}
	r.exported = nil
	if err := r.Disk.End(ctx, e.by, hex.EncodeToString(sum.Sum(nil)), nil); err != nil {
		return nil, err
	}
	written := agentapi.PrepareImageResult{RootDevice: r.Inventory.Disks[0].Name, Written: agentapi.Progress{DoneBytes: p.ImageBytes, TotalBytes: p.ImageBytes}}
	if e.parts != nil {
		r.partitioned(e.parts, &written)
	}
	return written, r.Pace.Sleep(ctx, r.Pace.Step)
}

func (r *run) stopISCSI(ctx context.Context, _ disk.By, c command.Call) (any, error) {
	var p agentapi.StopISCSIParams
	if err := decode(c.Params, &p); err != nil {
		return nil, err
	}
	e := r.exported
	if e == nil {
		return "no disk is exported", nil
	}
	e.target.kill()
	e.target = nil
	if p.Disk == e.id {
		r.exported = nil
		_ = r.Disk.End(ctx, e.by, e.image, errors.New("wiped, for the write has failed"))
	}
	return "the disk is exported no more", nil
}

// tgtd is a running target. A nil one does not run.
type tgtd struct {
	port    int
	cmd     *exec.Cmd
	control string
	over    chan struct{} // closed by kill
	watches sync.WaitGroup
}

// targets tells the daemons of this host apart.
var targets atomic.Int64

// settle is how long tgtd may take until it answers.
const settle = 20 * time.Second

// export has tgtd show the machine's file for one initiator, by CHAP: in both directions where the target has an account, too.
func (r *run) export(ctx context.Context, p agentapi.StartISCSIParams) (t *tgtd, err error) {
	f, err := os.OpenFile(r.file(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(f.Truncate(int64(r.Inventory.Disks[0].Size)), f.Close()); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(r.Listen.Addr().String(), "0"))
	if err != nil {
		return nil, err
	}
	t = &tgtd{over: make(chan struct{}), port: l.Addr().(*net.TCPAddr).Port, control: strconv.Itoa(int((int64(os.Getpid())*7 + 20_000 + targets.Add(1)) % 32_000))}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	t.cmd = exec.Command("tgtd", "-f", "-C", t.control, "--iscsi", "portal="+at)
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start tgtd, of Debian's package tgt: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	orders := []string{
		"--op show --mode sys",
		"--op new --mode target --tid 1 -T " + p.IQN,
		"--op new --mode logicalunit --tid 1 --lun 1 -b " + r.file(),
		"--op new --mode account --user " + p.User + " --password " + p.Secret,
		"--op bind --mode account --tid 1 --user " + p.User,
	}
	if p.TargetUser != "" {
		orders = append(orders, "--op new --mode account --user "+p.TargetUser+" --password "+p.TargetSecret,
			"--op bind --mode account --tid 1 --outgoing --user "+p.TargetUser)
	}
	for _, args := range append(orders, "--op bind --mode target --tid 1 -Q "+p.Initiator) {
		if err := t.admin(ctx, args); err != nil {
			t.kill()
			return nil, err
		}
	}
	return t, nil
}

func (t *tgtd) admin(ctx context.Context, args string) error {
	words := strings.Fields(args)
	for {
		out, err := exec.CommandContext(ctx, "tgtadm", append([]string{"-C", t.control, "--lld", "iscsi"}, words...)...).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("tgtadm %s %s: %w: %s", words[1], words[3], err, out)
		case <-time.After(20 * time.Millisecond): // tgtd may not listen yet
		}
	}
}

// watch has the target die in the middle of the image where that is one of the machine's faults. The agent does not notice.
func (t *tgtd) watch(r *run, by disk.By, bytes int64) {
	if !r.Faults.TargetToKill() {
		return
	}
	t.watches.Go(func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-t.over:
				return
			case <-look.C:
			}
			if has := allocated(r.file()); has > 0 && has < bytes && r.Faults.KillsTarget() {
				r.note(journal.TargetDied, by, fmt.Sprintf("with %d of %d bytes of the image", has, bytes))
				_ = t.cmd.Process.Kill()
				return
			}
		}
	})
}

// allocated is how many bytes of a file are on the host's disk.
func allocated(name string) int64 {
	var s syscall.Stat_t
	if err := syscall.Stat(name, &s); err != nil {
		return 0
	}
	return s.Blocks * 512
}

// kill ends the target in the middle of whatever it does.
func (t *tgtd) kill() {
	if t == nil {
		return
	}
	close(t.over)
	t.watches.Wait()
	_ = t.cmd.Process.Kill()
	_ = t.cmd.Wait()
	for _, suffix := range []string{"", ".lock"} {
		_ = os.Remove("/var/run/tgtd/socket." + t.control + suffix)
	}
}
