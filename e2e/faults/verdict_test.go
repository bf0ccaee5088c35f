package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ironyard/ironyard/e2e/faults/verdict"
	"github.com/ironyard/ironyard/protocol/bus"
)

// settle is how long a whole fleet may take to come to rest and to agree with itself:
// deadlines of waiting states, and the reconciliation that finds what was lost.
const settle = 2 * time.Minute

// judge waits until the records show no violation and fails the test with what they
// show in the end. What an earlier test has failed for is not said again.
func (l *lab) judge(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settle+time.Minute)
	defer cancel()
	began := time.Now()
	for {
		e, err := l.gather(ctx)
		var found []string
		if err == nil {
			found = slices.DeleteFunc(verdict.Judge(e), func(f string) bool { return l.blamed[f] })
		}
		if err == nil && len(found) == 0 {
			t.Logf("at rest and in order after %v: %d requests, %d pieces of work, %d lines of history, %d events", time.Since(began).Round(time.Second),
				len(e.Requests), len(e.Works), len(e.History), len(e.Sites[0].Events)+len(e.Sites[1].Events))
			return
		}
		if time.Since(began) > settle {
			if err != nil {
				t.Fatalf("the records could not be read: %v", err)
			}
			if err := l.save(ctx, e); err != nil {
				t.Error(err)
			}
			for _, f := range found {
				l.blamed[f] = true
			}
			for i, f := range found {
				if i == 30 {
					t.Errorf("and %d more", len(found)-i)
					break
				}
				t.Error(f)
			}
			return
		}
		time.Sleep(time.Second)
	}
}

// save writes the evidence and the machines' journals into the lab's folder.
func (l *lab) save(ctx context.Context, e *verdict.Evidence) error {
	for i, s := range l.Sites {
		j, err := s.Machines.Client.Journal(ctx, 0)
		if err != nil {
			return fmt.Errorf("the journal of site %s: %w", s.Name, err)
		}
		e.Sites[i].Journal = j
	}
	return e.Save(l.dir)
}

// gatherWithin bounds one reading of all records.
const gatherWithin = 20 * time.Second

// gather reads the records of now.
func (l *lab) gather(ctx context.Context) (*verdict.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	e := &verdict.Evidence{Requests: l.ops.Requests(), Sights: l.see.Seen()}
	c, err := l.Database.Connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close(ctx)
	if err := e.Database(ctx, c); err != nil {
		return nil, err
	}
	for i, s := range l.Sites {
		nc, err := s.Bus.Connect("judge")
		if err != nil {
			return nil, err
		}
		defer nc.Close()
		site := verdict.Site{Name: s.Name, Expected: map[string]bus.Group{}}
		for _, g := range sites[i].Groups {
			site.Expected[bus.GroupKey(g.Name)] = bus.Group{Name: g.Name, Failover: g.Failover}
		}
		if err := site.Bus(ctx, nc); err != nil {
			return nil, err
		}
		if err := site.Fleet(ctx, s.Machines.Client); err != nil {
			return nil, err
		}
		e.Sites = append(e.Sites, site)
	}
	return e, nil
}
