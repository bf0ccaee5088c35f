package work

// Source says who has told what an inspection found. The driver knows: each inspect interface says it.
type Source string

// The sources. An empty one is that of a rackd which does not say.
const (
	// FromRamdisk: an agent in the machine's ramdisk.
	FromRamdisk Source = "ramdisk"
	// FromBMC: the machine's BMC. No ramdisk has run.
	FromBMC Source = "bmc"
	// MadeUp: the machine exists in memory only.
	MadeUp Source = "made up"
)
