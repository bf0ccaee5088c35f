// Command ironyard-fleet simulates machines for tests. See package program.
package main

import "github.com/ironyard/ironyard/e2e/fleet/program"

func main() { program.Main() }
