// Command ironyard-fleet simulates machines for tests. See package program.
package main

import "github.com/ironyard/ironyard/ops/virtual/fleet/program"

func main() { program.Main() }
