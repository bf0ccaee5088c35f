// Package iscsitarget makes one disk of the machine an iSCSI target: the kernel's (LIO), set up by configfs.
//
// It owns everything below the kernel's target folder, and the gate before it. It may import agent/kmod. Invariants:
//   - The kernel's target listens on loopback alone. Who comes from outside comes through the gate, which takes in the
//     addresses that it was told and ends with the target. Without a login in the one initiator's name no caller reaches the kernel.
//   - Strangers at the gate are bounded, so that they keep the initiator out for no longer than a login takes.
//   - One initiator name may log in, by CHAP, with secrets that this call was given. The target shows one too, where it was given one.
//   - There is at most one target. Another Start ends the one before, and its sessions, first.
//   - A target without a connection for Idle ends by itself, unless it is one that lasts.
//   - After Stop the disk is free: no initiator can write to it.
package iscsitarget

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/agent/kmod"
)

// LUN of the disk, as ironic-python-agent has it.
const LUN = 1

// DefaultIdle is how long a target stays without a connection.
const DefaultIdle = 2 * time.Minute

// Options of a target.
type Options struct {
	// IQN is the target's name, Initiator the one that may log in.
	IQN, Initiator string
	// Port of the gate, at all addresses of the machine; 0: any.
	Port int
	// From are the networks whose addresses the gate takes in.
	From []netip.Prefix
	// User and Secret are what the initiator shows; TargetUser and TargetSecret what the target shows, both empty: nothing.
	User, Secret, TargetUser, TargetSecret string
	// Lasts: the target stays without a connection.
	Lasts bool
}

// mutual reports whether the target shows who it is.
func (o Options) mutual() bool { return o.TargetUser != "" || o.TargetSecret != "" }

// Error says that a target could not be made or ended.
type Error struct {
	Doing string
	Err   error
}

func (e *Error) Error() string {
	return "Error starting iSCSI target: " + e.Doing + ": " + e.Err.Error()
}
func (e *Error) Unwrap() error { return e.Err }

// FaultType names the error as ironic-python-agent does.
func (*Error) FaultType() string { return "ISCSIError" }

// Server makes targets. Safe for concurrent use. Its fields are set before use.
type Server struct {
	Log *slog.Logger
	// Idle is how long a target stays without a connection; 0: DefaultIdle.
	Idle time.Duration

	mu   sync.Mutex
	gate *gate
}

const (
	mountPoint = "/sys/kernel/config"
	folder     = mountPoint + "/target"
	backstore  = folder + "/core/iblock_0"
	fabric     = folder + "/iscsi"
	// insidePort is iSCSI's other well-known port, so that the gate may have the usual one.
	insidePort = 860
)

// inside is where the kernel's target listens.
var inside = "127.0.0.1:" + strconv.Itoa(insidePort)

var name = regexp.MustCompile(`^iqn\.[0-9]{4}-[0-9]{2}\.[a-z0-9.-]+(:[a-z0-9.:-]+)?$`)

// check refuses what must not become a name of a file or a line of configfs.
func (o Options) check() error {
	for _, n := range []string{o.IQN, o.Initiator} {
		if !name.MatchString(n) || len(n) > 223 || strings.Contains(n, "..") {
			return fmt.Errorf("%.60q is no name of iSCSI", n)
		}
	}
	shown := [][2]string{{o.User, o.Secret}}
	if o.mutual() {
		shown = append(shown, [2]string{o.TargetUser, o.TargetSecret})
	}
	for _, s := range shown {
		if s[0] == "" || len(s[0]) > 255 || len(s[1]) < 8 || len(s[1]) > 255 || strings.ContainsAny(s[0]+s[1], " \t\r\n\x00") {
			return errors.New("CHAP needs a name of up to 255 characters and a secret of 8 to 255 of each side that shows who it is, without spaces")
		}
	}
	if len(o.From) == 0 || slices.ContainsFunc(o.From, func(p netip.Prefix) bool { return !p.IsValid() }) || o.Port < 0 || o.Port > 65535 || o.Port == insidePort {
		return fmt.Errorf("the addresses that may come in are missing, or port %d cannot be used", o.Port)
	}
	return nil
}

// Start exports a disk. It returns the gate's port.
func (s *Server) Start(ctx context.Context, disk string, o Options) (port int, err error) {
	if err := o.check(); err != nil {
		return 0, &Error{"its parameters", err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.stop(); err != nil {
		return 0, err
	}
	if err := s.ready(); err != nil {
		return 0, &Error{"this ramdisk's kernel has none", err}
	}
	if err := build(disk, o); err != nil {
		return 0, errors.Join(&Error{"export " + disk, err}, s.remove())
	}
	idle := s.Idle
	if idle <= 0 {
		idle = DefaultIdle
	}
	if s.gate, err = open(ctx, o.Port, o.From, o.Initiator, inside, s.Log); err != nil {
		return 0, errors.Join(&Error{"listen on port " + strconv.Itoa(o.Port), err}, s.remove())
	}
	g := s.gate
	if o.Lasts {
		s.Log.Info("iSCSI target that lasts", "iqn", o.IQN, "disk", disk, "port", g.port, "for", o.From)
		return g.port, nil
	}
	go g.watch(idle, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.gate == g {
			s.Log.Warn("the iSCSI target has no connection: it ends", "after", idle)
			if err := s.stop(); err != nil {
				s.Log.Error("the iSCSI target did not end", "error", err)
			}
		}
	})
	s.Log.Info("iSCSI target", "iqn", o.IQN, "disk", disk, "port", g.port, "for", o.From)
	return g.port, nil
}

// Stop ends the target and its sessions; without one it does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop()
}

func (s *Server) stop() error {
	if s.gate != nil {
		s.gate.close()
		s.gate = nil
	}
	return s.remove()
}

// ready loads the kernel's part, once.
func (s *Server) ready() error {
	if _, err := os.Stat(folder); err != nil {
		kmod.Load(s.Log, kmod.ISCSI)
	}
	if err := unix.Mount("configfs", mountPoint, "configfs", unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount configfs: %w", err)
	}
	if err := os.Mkdir(fabric, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// set writes an attribute of configfs.
func set(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// build makes the target. Its order is the kernel's.
func build(disk string, o Options) error {
	group := filepath.Join(fabric, o.IQN, "tpgt_1")
	lun := filepath.Join(group, "lun", "lun_"+strconv.Itoa(LUN))
	acl := filepath.Join(group, "acls", o.Initiator)
	store := filepath.Join(backstore, "disk")
	type attribute struct{ path, value string }
	write := func(list ...attribute) func() error {
		return func() error {
			for _, a := range list {
				if err := set(a.path, a.value); err != nil {
					return err
				}
			}
			return nil
		}
	}
	made := func(path string) func() error {
		return func() error { return os.MkdirAll(path, 0o755) }
	}
	for _, do := range []func() error{
		made(store),
		write(attribute{store + "/control", "udev_path=" + disk}, attribute{store + "/enable", "1"}),
		made(filepath.Join(fabric, o.IQN)), made(group), made(lun),
		func() error { return os.Symlink(store, lun+"/disk") },
		write(attribute{group + "/attrib/authentication", "1"}, attribute{group + "/attrib/generate_node_acls", "0"},
			// So that a write of 256 KiB goes with its command.
			attribute{group + "/param/MaxRecvDataSegmentLength", "262144"}, attribute{group + "/param/FirstBurstLength", "262144"},
			attribute{group + "/param/MaxBurstLength", "1048576"}, attribute{group + "/param/InitialR2T", "No"}, attribute{group + "/param/ImmediateData", "Yes"}),
		made(acl), made(filepath.Join(acl, "lun_"+strconv.Itoa(LUN))),
		func() error { return os.Symlink(lun, acl+"/lun_"+strconv.Itoa(LUN)+"/disk") },
		write(attribute{acl + "/auth/userid", o.User}, attribute{acl + "/auth/password", o.Secret}),
		func() error {
			if !o.mutual() {
				return nil
			}
			return write(attribute{acl + "/auth/userid_mutual", o.TargetUser}, attribute{acl + "/auth/password_mutual", o.TargetSecret})()
		},
		made(filepath.Join(group, "np", inside)),
		write(attribute{group + "/enable", "1"}),
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// remove takes away all targets that there are, also of an agent that ran before.
func (s *Server) remove() error {
	targets, err := filepath.Glob(fabric + "/iqn.*")
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range targets {
		group := filepath.Join(t, "tpgt_1")
		if _, err := os.Stat(group); err == nil {
			errs = append(errs, set(group+"/enable", "0")) // ends its sessions
		}
		// Links first, then folders, the innermost first.
		for _, pattern := range []string{"acls/*/lun_*/disk", "acls/*/lun_*", "acls/*", "lun/*/disk", "lun/lun_*", "np/*", ""} {
			found, err := filepath.Glob(filepath.Join(group, pattern))
			errs = append(errs, err)
			for _, path := range found {
				errs = append(errs, drop(path))
			}
		}
		errs = append(errs, drop(t))
	}
	if _, err := os.Stat(backstore + "/disk"); err == nil {
		errs = append(errs, drop(backstore+"/disk"))
	}
	if err := errors.Join(errs...); err != nil {
		return &Error{"end the target of before", err}
	}
	return nil
}

// drop removes a link or a folder of configfs.
func drop(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
