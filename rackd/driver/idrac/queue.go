package idrac

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/redfish"
)

// longestQueue is how long a step waits for jobs of others.
const longestQueue = 30 * time.Minute

// queued says that jobs are in the way; nil without any.
func queued(n *node.Document, left []job) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("its job queue holds unfinished jobs: %s: it takes one configuration at a time. Let them end, or run the step clear_job_queue", names(n, left))
}

// BIOS is the BIOS interface of machines with an iDRAC.
type BIOS struct{ redfish.BIOS }

// RAID is the RAID interface of machines with an iDRAC.
type RAID struct{ redfish.RAID }

// NamedSteps lists Redfish's steps, which here wait for the job queue.
func (b BIOS) NamedSteps(n *node.Document) []driver.Step {
	return behindQueue(b.Driver, b.BIOS.NamedSteps(n))
}

// NamedSteps lists Redfish's steps, which here wait for the job queue.
func (r RAID) NamedSteps(n *node.Document) []driver.Step {
	return behindQueue(r.Driver, r.RAID.NamedSteps(n))
}

// behindQueue has steps wait until the job queue is free, before their first order.
func behindQueue(d *redfish.Driver, steps []driver.Step) []driver.Step {
	for i, s := range steps {
		run := s.Run
		steps[i].Run = func(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
			if t.Record.Handle() != nil {
				return run(ctx, t) // the job is its own
			}
			left, err := openJobsOf(ctx, d, t.Node, "look at the job queue before "+s.Name)
			switch {
			case err != nil:
				return driver.Outcome{}, err
			case len(left) == 0:
				return run(ctx, t)
			case t.Since(t.Entered) > longestQueue:
				return driver.Outcome{}, fmt.Errorf("node %s: %s: the iDRAC's queue has been busy for %s: %w", t.Node.Label(), s.Name, longestQueue, queued(t.Node, left))
			}
			return driver.Wait(look), nil
		}
	}
	return steps
}

// openJobsOf reads a node's jobs that have not ended; none where its iDRAC has no queue.
func openJobsOf(ctx context.Context, d *redfish.Driver, n *node.Document, doing string) (left []job, err error) {
	err = d.Turn(ctx, nil, n, doing, func(turn *redfish.Turn) error {
		k, err := managerOf(turn)
		if err == nil {
			left, err = openJobs(turn, k)
		}
		if redfish.Status(err) == 404 {
			return nil // it has no queue
		}
		return err
	})
	return left, err
}

// Jobs is the periodic task that names jobs in the queues of idle nodes. No flow of the node waits for them, and the next step of BIOS or
// RAID has to.
func Jobs() driver.Periodic {
	return driver.Periodic{Name: "jobs", Every: time.Hour,
		Do: func(ctx context.Context, n *node.Document, hw *driver.Hardware) (string, error) {
			m, is := hw.Management().(Management)
			if !is {
				return "", nil
			}
			left, err := openJobsOf(ctx, m.Driver, n, "look at the job queue")
			if len(left) == 0 {
				return "", err
			}
			return fmt.Sprintf("the iDRAC holds unfinished jobs, and no flow of the node waits for them: %s. The next step of BIOS or RAID waits for them, for %s at most. "+
				"Let them end, restart the machine where they wait for that, or run the step clear_job_queue", names(n, left), longestQueue), nil
		}}
}
