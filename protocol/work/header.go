package work

// Headers of each request by which a rackd changes something, at a BMC or an agent:
// who reads a machine's records later can tell which work wrote, and under which
// epoch. Neither is a secret and neither is checked by who receives it.
const (
	IDHeader    = "X-Ironyard-Work"
	EpochHeader = "X-Ironyard-Epoch"
)
