package pid1

import (
	"errors"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

type mount struct {
	kind, target, data string
	// optional mounts are missed without complaint: not every machine has UEFI.
	optional bool
}

// early is needed to load modules; late may need a module.
var (
	early = []mount{
		{kind: "devtmpfs", target: "/dev", data: "mode=0755"},
		{kind: "proc", target: "/proc"},
		{kind: "sysfs", target: "/sys"},
		{kind: "tmpfs", target: "/run", data: "mode=0755"},
		{kind: "tmpfs", target: "/tmp", data: "mode=1777,size=80%"},
	}
	late = []mount{
		{kind: "devpts", target: "/dev/pts", data: "mode=0620,ptmxmode=0666"}, // for logins in a rescue
		{kind: "efivarfs", target: "/sys/firmware/efi/efivars", optional: true},
	}
)

func mounts(log *slog.Logger, list []mount) {
	for _, m := range list {
		if m.optional {
			if _, err := os.Stat(m.target); err != nil {
				continue
			}
		} else if err := os.MkdirAll(m.target, 0o755); err != nil {
			log.Error("cannot make mount point", "target", m.target, "error", err)
		}
		flags := uintptr(unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NODEV)
		if m.kind == "devtmpfs" || m.kind == "devpts" {
			flags = unix.MS_NOSUID
		}
		// EBUSY: the kernel has mounted devtmpfs by itself.
		if err := unix.Mount(m.kind, m.target, m.kind, flags, m.data); err != nil && !errors.Is(err, unix.EBUSY) {
			log.Error("cannot mount", "what", m.kind, "target", m.target, "error", err)
		}
	}
}
