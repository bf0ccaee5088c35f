package container

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// counting is how often it is looked what the root in memory holds.
const counting = time.Second

// count tells until the end how many bytes have come into the root of a container's first process. What podman removes again after it
// has unpacked it came all the same: so the number grows with each byte that comes, and stands where none does.
func count(pid int, end <-chan struct{}, tell func(bytes int64)) {
	tick := time.NewTicker(counting)
	defer tick.Stop()
	var came, before int64
	for {
		select {
		case <-end:
			return
		case <-tick.C:
		}
		held, ok := holds(pid)
		if !ok {
			continue
		}
		came, before = came+max(held-before, 0), held
		tell(came)
	}
}

// holds is how many bytes the root in memory of a process holds; false while it has the agent's root yet, or has ended.
func holds(pid int) (int64, bool) {
	root := fmt.Sprintf("/proc/%d/root/", pid)
	var its, ours unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(root, &its) != nil || unix.Stat("/", &ours) != nil || its.Dev == ours.Dev || unix.Statfs(root, &fs) != nil {
		return 0, false
	}
	return int64(fs.Blocks-fs.Bfree) * int64(fs.Bsize), true
}
