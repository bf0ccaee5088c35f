package boot

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/ironyard/ironyard/agent/halt"
)

// End is how the machine's run shall end.
type End string

// The ends there are.
const (
	Nothing  End = "nothing"
	Reboot   End = "reboot"
	PowerOff End = "power off"
)

// execute ends the machine's run and returns an exit status if it still lives.
func (e End) execute(log *slog.Logger, ramdisk bool) int {
	how := map[End]halt.How{Reboot: halt.Reboot, PowerOff: halt.PowerOff}[e]
	if how == 0 || !ramdisk {
		log.Info("the agent ends", "machine", e)
		return 0
	}
	if err := halt.Now(log, how); err != nil {
		log.Error("the machine does not obey", "wanted", e, "error", err)
	}
	return exitStatus(Flags{Ramdisk: true})
}

// power remembers the first wish.
type power struct{ asked chan End }

func newPower() *power { return &power{make(chan End, 1)} }

func (p *power) ask(e End) error {
	select {
	case p.asked <- e:
		return nil
	default:
		return fmt.Errorf("cannot %s: the machine's run is ending already", e)
	}
}

// Reboot asks for a reboot, soon.
func (p *power) Reboot(context.Context) error { return p.ask(Reboot) }

// PowerOff asks for power off, soon.
func (p *power) PowerOff(context.Context) error { return p.ask(PowerOff) }

// crew owns the agent's goroutines.
type crew struct{ wg sync.WaitGroup }

func newCrew() *crew          { return &crew{} }
func (c *crew) Go(run func()) { c.wg.Go(run) }
func (c *crew) wait()         { c.wg.Wait() }
