package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	KillRackd   Kind = "kill rackd"        // SIGKILL
	StopRackd   Kind = "stop rackd"        // SIGTERM
	PauseRackd  Kind = "pause rackd"       // SIGSTOP and, later than its lease, SIGCONT
	UnplugRackd Kind = "unplug rackd"      // off the network altogether
	BlockRackd  Kind = "block rackd"       // off the bus; it reaches its machines
	StepRackd   Kind = "step rackd clock"  // wall clock, there and back
	KillServer  Kind = "kill NATS server"  // one of a site's
	KillServers Kind = "kill NATS servers" // two of a site's three
	PauseServer Kind = "pause NATS server" // SIGSTOP, SIGCONT
	WipeServer  Kind = "wipe NATS server"  // killed, disk emptied
	PurgeWork   Kind = "purge WORK"        // all messages of the bucket gone
	PurgeNodes  Kind = "purge NODES"
	DropWork    Kind = "drop WORK" // the bucket itself gone
	DropNodes   Kind = "drop NODES"
	CutWAN      Kind = "cut WAN"
	SlowWAN     Kind = "slow WAN" // delay, jitter and loss
	KillCentral Kind = "kill central"
	StopCentral Kind = "stop central"
	PauseHub    Kind = "pause hub server"
	KillHub     Kind = "kill hub server"
	KillDB      Kind = "kill database"
	StopDB      Kind = "restart database"
	UnplugDB    Kind = "unplug database"
	HangBMC     Kind = "hang BMC"
	RefuseBMC   Kind = "refuse BMC connections"
	FailBMC     Kind = "BMC answers 500"
	Isolate     Kind = "isolate machine"
	FailDisk    Kind = "machine's disk fails a write"
	Glitch      Kind = "machine restarts by itself"
)

// Fault is one fault of a plan. It begins at At after the start and is repaired after
// For; 0 means that it needs no repair.
type Fault struct {
	At, For time.Duration
	Kind    Kind
	Site    int // index; of no meaning for central, hub and database
	Which   int // of the rackds, servers, replicas or machines; the first of two
	// Amount is a clock's step in seconds, a link's delay in milliseconds or a number of
	// refusals.
	Amount int
}

func (f Fault) String() string {
	s := fmt.Sprintf("%s #%d at site #%d", f.Kind, f.Which+1, f.Site+1)
	if f.Amount != 0 {
		s += fmt.Sprintf(" (%d)", f.Amount)
	}
	if f.For > 0 {
		s += " for " + f.For.Round(10*time.Millisecond).String()
	}
	return s
}

// Shape says how much there is to break.
type Shape struct {
	Rackds, Machines []int // by site
	Central, Hub     int
	Servers          int // of each site
	// Clocks says that wall clocks can be stepped.
	Clocks bool
}

// lane is a sequence of faults that do not overlap.
type lane struct {
	kinds        []Kind
	site, things int
	// Each fault lasts shortest to longest and is followed by as much calm as calm to
	// twice calm.
	shortest, longest, calm time.Duration
}

func lanes(s Shape) (list []lane) {
	for i := range s.Rackds {
		rackd := []Kind{KillRackd, KillRackd, StopRackd, PauseRackd, PauseRackd, UnplugRackd, BlockRackd}
		if s.Clocks {
			rackd = append(rackd, StepRackd)
		}
		list = append(list,
			lane{rackd, i, s.Rackds[i], 4 * time.Second, 15 * time.Second, 4 * time.Second},
			lane{[]Kind{KillServer, KillServers, PauseServer, WipeServer, PurgeWork, PurgeNodes, DropWork, DropNodes}, i, s.Servers,
				3 * time.Second, 10 * time.Second, 20 * time.Second},
			lane{[]Kind{CutWAN, SlowWAN}, i, 1, 10 * time.Second, 40 * time.Second, 15 * time.Second},
			lane{[]Kind{HangBMC, RefuseBMC, FailBMC, Isolate, FailDisk, Glitch}, i, s.Machines[i], 2 * time.Second, 10 * time.Second, 3 * time.Second})
	}
	return append(list,
		lane{[]Kind{KillCentral, KillCentral, StopCentral}, 0, s.Central, 2 * time.Second, 8 * time.Second, 8 * time.Second},
		lane{[]Kind{KillHub, PauseHub}, 0, s.Hub, 3 * time.Second, 12 * time.Second, 15 * time.Second},
		lane{[]Kind{KillDB, StopDB, UnplugDB}, 0, 1, time.Second, 6 * time.Second, 25 * time.Second})
}

// Plan returns the faults of a run that lasts length, in their order. They all end
// before it does.
func Plan(seed uint64, length time.Duration, s Shape) []Fault {
	var plan []Fault
	for i, l := range lanes(s) {
		dice := rand.New(rand.NewPCG(seed, uint64(i)))
		for at := l.pause(dice) / 2; ; {
			f := l.fault(dice, at)
			if at += f.For; at > length {
				break
			}
			plan = append(plan, f)
			at += l.pause(dice)
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return plan
}

func (l lane) pause(dice *rand.Rand) time.Duration {
	return l.calm + time.Duration(dice.Int64N(int64(l.calm)))
}

func (l lane) fault(dice *rand.Rand, at time.Duration) Fault {
	f := Fault{At: at, Kind: l.kinds[dice.IntN(len(l.kinds))], Site: l.site, Which: dice.IntN(l.things),
		For: l.shortest + time.Duration(dice.Int64N(int64(l.longest-l.shortest)))}
	switch f.Kind {
	case PurgeWork, PurgeNodes, DropWork, DropNodes, FailDisk, Glitch:
		f.For = 0
	case StepRackd:
		f.Amount = 600
		if dice.IntN(2) == 0 {
			f.Amount = -600
		}
	case SlowWAN:
		f.Amount = 20 + dice.IntN(200)
	case FailBMC:
		f.Amount = 1 + dice.IntN(5)
		f.For = 0
	}
	return f
}
