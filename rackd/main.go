// Command rackd is the conductor of a rack: it boots, writes and watches machines.
package main

import "github.com/ironyard/ironyard/rackd/command"

func main() { command.Main() }
