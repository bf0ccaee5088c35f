package operators

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
)

// Crew are operators who each look after one machine and do with it what people do,
// sensible or not, as their die says.
type Crew struct {
	Client   *Client
	Machines []Machine
	// Images are the instance_info that deploys choose from.
	Images []map[string]any
	Seed   uint64
	// Pause is the mean time between looking at a machine and acting again.
	Pause time.Duration
}

// Run works until ctx ends and returns when nobody sends anything any more.
func (c *Crew) Run(ctx context.Context) {
	var work sync.WaitGroup
	for i, m := range c.Machines {
		p := &person{Crew: c, machine: m, dice: rand.New(rand.NewPCG(c.Seed, uint64(i)))}
		work.Go(func() { p.run(ctx) })
	}
	work.Wait()
}

type person struct {
	*Crew
	machine Machine
	dice    *rand.Rand
}

func (p *person) run(ctx context.Context) {
	for p.rest(ctx) {
		n, err := p.find(ctx)
		if err != nil {
			continue // nobody answers, or the node could not be enrolled; look again
		}
		p.act(ctx, n)
	}
}

func (p *person) rest(ctx context.Context) bool {
	t := time.NewTimer(p.Pause/2 + time.Duration(p.dice.Int64N(int64(p.Pause))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// find returns the machine's node, enrolling it when it was deleted.
func (p *person) find(ctx context.Context) (*Node, error) {
	n, err := p.Client.Show(ctx, p.machine.Name)
	if errors.Is(err, ErrNotFound) {
		_, err = p.Client.Enrol(ctx, p.machine)
		if err == nil {
			n, err = p.Client.Show(ctx, p.machine.Name)
		}
	}
	if err != nil || n.State != provision.Enroll {
		return n, err
	}
	// An enrolment may have been cut short before its ports.
	var list struct{ Ports []struct{ Address string } }
	if err := p.Client.Read(ctx, "/v1/ports?node="+n.UUID, &list); err != nil {
		return nil, err
	}
	if len(list.Ports) == 0 {
		for _, mac := range p.machine.MACs {
			p.Client.Send(ctx, n.UUID, "", "create port", http.MethodPost, "/v1/ports", map[string]any{"node_uuid": n.UUID, "address": mac})
		}
	}
	return n, nil
}

// choice is something to do, so often in a hundred.
type choice struct {
	percent int
	do      func(ctx context.Context, n *Node)
}

func (p *person) pick(ctx context.Context, n *Node, list ...choice) {
	at := p.dice.IntN(100)
	for _, c := range list {
		if at -= c.percent; at < 0 {
			c.do(ctx, n)
			return
		}
	}
}

func (p *person) ask(verb string) func(context.Context, *Node) {
	return func(ctx context.Context, n *Node) { p.Client.Ask(ctx, n.UUID, string(n.State), verb) }
}

func (p *person) power(target string) func(context.Context, *Node) {
	return func(ctx context.Context, n *Node) { p.Client.Power(ctx, n.UUID, string(n.State), target) }
}

func (p *person) maintain(on bool) func(context.Context, *Node) {
	return func(ctx context.Context, n *Node) { p.Client.Maintain(ctx, n.UUID, string(n.State), on) }
}

// deploy sets an image and asks for it.
func (p *person) deploy(verb string) func(context.Context, *Node) {
	return func(ctx context.Context, n *Node) {
		if r := p.Client.SetImage(ctx, n.UUID, p.Images[p.dice.IntN(len(p.Images))]); r.Accepted() {
			p.Client.Ask(ctx, n.UUID, string(n.State), verb)
		}
	}
}

func (p *person) remove(ctx context.Context, n *Node) { p.Client.Delete(ctx, n.UUID, string(n.State)) }

// act does one thing with the node, or nothing.
func (p *person) act(ctx context.Context, n *Node) {
	if n.Maintenance {
		// Some things are refused meanwhile; who forgets about it tries them.
		p.pick(ctx, n, choice{60, p.maintain(false)}, choice{10, p.deploy("active")})
		return
	}
	switch n.State {
	case provision.Enroll:
		p.pick(ctx, n, choice{90, p.ask("manage")}, choice{4, p.remove})
	case provision.Manageable:
		p.pick(ctx, n, choice{60, p.ask("provide")}, choice{12, p.ask("inspect")}, choice{12, p.ask("clean")}, choice{4, p.remove},
			choice{4, p.maintain(true)})
	case provision.Available:
		p.pick(ctx, n, choice{80, p.deploy("active")}, choice{8, p.ask("manage")}, choice{3, p.remove}, choice{3, p.ask("deleted")})
	case provision.Active:
		p.pick(ctx, n, choice{45, p.ask("deleted")}, choice{15, p.deploy("rebuild")}, choice{8, p.power("rebooting")}, choice{5, p.power("power off")},
			choice{8, p.power("power on")}, choice{5, p.maintain(true)}, choice{2, p.remove})
	case provision.DeployFail:
		p.pick(ctx, n, choice{40, p.deploy("active")}, choice{50, p.ask("deleted")})
	case provision.CleanFail, provision.InspectFail:
		p.pick(ctx, n, choice{90, p.ask("manage")})
	case provision.Error:
		p.pick(ctx, n, choice{90, p.ask("deleted")})
	case provision.DeployWait:
		p.pick(ctx, n, choice{6, p.ask("abort")}, choice{6, p.ask("deleted")}, choice{3, p.maintain(true)}, choice{3, p.power("power off")})
	case provision.CleanWait, provision.InspectWait:
		p.pick(ctx, n, choice{8, p.ask("abort")}, choice{3, p.maintain(true)}, choice{2, p.remove})
	default:
		// Work is going on: what an impatient operator tries is refused.
		p.pick(ctx, n, choice{3, p.ask("active")}, choice{3, p.ask("deleted")}, choice{2, p.power("power off")}, choice{2, p.maintain(true)},
			choice{1, p.remove})
	}
}

// Finish brings the machine's node to active by whatever way leads there, as proof
// that it is stuck nowhere. It fails when ctx ends.
func (c *Crew) Finish(ctx context.Context) error {
	errs := make([]error, len(c.Machines))
	var work sync.WaitGroup
	for i, m := range c.Machines {
		p := &person{Crew: c, machine: m, dice: rand.New(rand.NewPCG(c.Seed, uint64(i)))}
		work.Go(func() { errs[i] = p.finish(ctx) })
	}
	work.Wait()
	return errors.Join(errs...)
}
