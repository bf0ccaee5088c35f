// Command central is Ironyard's control plane: the Ironic-compatible API, its
// database, and the link to the sites.
package main

import "github.com/ironyard/ironyard/central/command"

func main() { command.Main() }
