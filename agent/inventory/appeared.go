package inventory

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// Appeared is how long ago the kernel showed the newest of some disks: when it made their device files. known is false where the
// kernel does not say (before Linux 5.19), or where the clock was set since the machine started.
func (m Machine) Appeared(disks []agentapi.Disk) (ago time.Duration, known bool) {
	var up unix.Timespec
	if len(disks) == 0 || len(m.DiskFiles) > 0 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return 0, false
	}
	ago = time.Duration(up.Nano())
	now := time.Now()
	for _, d := range disks {
		var s unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, m.path(d.Name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &s)
		if err != nil || s.Mask&unix.STATX_BTIME == 0 {
			return 0, false
		}
		there := now.Sub(time.Unix(s.Btime.Sec, int64(s.Btime.Nsec)))
		if there < 0 || there > time.Duration(up.Nano()) {
			return 0, false
		}
		ago = min(ago, there)
	}
	return ago, true
}
