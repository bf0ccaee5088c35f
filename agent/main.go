// Command agent is /init of Ironyard's ramdisk. As the first process it prepares
// the machine and keeps itself running as a child; as that child, or started by
// hand, it is the agent. See package boot. It is also what an image's programs are
// confined by (package confine), and the first process of containers (package container).
package main

import (
	"os"

	"github.com/ironyard/ironyard/agent/boot"
	"github.com/ironyard/ironyard/agent/confine"
	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/agent/pid1"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == confine.Argument {
		os.Exit(confine.Main()) // it is the first process of a name space, not of the machine
	}
	if len(os.Args) == 2 && os.Args[1] == container.Argument {
		os.Exit(container.Main()) // and so is this
	}
	if os.Getpid() == 1 {
		pid1.Main(boot.Logger(false, nil), "agent", boot.RamdiskFlag)
	}
	os.Exit(boot.Main(os.Args[1:]))
}
