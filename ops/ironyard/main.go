// Command ironyard is the operator's command: a fleet on one machine, the virtual
// rack, the demo, the ramdisk and the keys.
package main

import "github.com/ironyard/ironyard/ops/command"

func main() { command.Main() }
