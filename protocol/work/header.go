package work

import "github.com/ironyard/ironyard/protocol/agentapi"

// Headers of each request by which a rackd changes something, at a BMC or an agent:
// who reads a machine's records later can tell which work wrote, and under which
// epoch. Neither is a secret. BMCs check neither; for agents see agentapi.
const (
	IDHeader    = agentapi.WorkHeader
	EpochHeader = agentapi.EpochHeader
)
