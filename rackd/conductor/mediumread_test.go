package conductor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/provision"
	"github.com/ironyard/ironyard/protocol/work"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Where no agent calls, the error says how much of the ramdisk's medium was read. It does so if this rackd knows it, and it was too little.
func TestADeadlineTellsWhatWasReadOfTheMedium(t *testing.T) {
	const unasked, part = "The BMC has not asked this rackd for a byte of the ramdisk's medium", "Of the ramdisk's medium 1.5 MB were read, and a machine that boots from it reads 20.0 MB"
	for name, c := range map[string]struct {
		base string
		read []int64
		want string
	}{
		"not asked for":    {want: unasked},
		"looked at":        {read: []int64{0}, want: "Of the ramdisk's medium 0.0 MB were read"},
		"read in part":     {read: []int64{500_000, 1_000_000}, want: part},
		"read":             {read: []int64{20_000_000}},
		"served elsewhere": {base: "http://elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShelf()
				oneNode(s)
				m := &byMadeMedium{&machine{power: driver.PowerOff}}
				wait := waitForAgent(m.machine)
				boot, published := wait.Run, ""
				wait.Run = func(ctx context.Context, k *driver.Task) (driver.Outcome, error) {
					if k.Record.Handle() == nil {
						var err error
						if published, err = k.Media.Publish(c.base); err != nil {
							return driver.Done(), err
						}
						k.Record.AgentGone()
					}
					return boot(ctx, k)
				}
				m.deploy = []driver.Step{wait}
				a, _, kill := conductorOn(t, s, "a", owned("a"), m.machine, func(cfg *Config) {
					cfg.Media = mediaAt("http://a")
					cfg.Deadlines = map[provision.State]time.Duration{provision.DeployWait: time.Minute}
					named := []driver.Named{{Name: "m", Impl: m}}
					reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: map[string][]driver.Named{"power": named, "management": named, "boot": named, "deploy": named}})
					if err != nil {
						t.Fatal(err)
					}
					cfg.Hardware = reg
				})
				defer kill()
				s.request(nodeA, work.Deploy, provision.Deploying, work.Args{})
				synctest.Wait()
				o, ok := a.Medium(nodeA, published[strings.LastIndex(published, "/")+1:])
				if !ok {
					t.Fatalf("no medium answers at %q", published)
				}
				for _, bytes := range c.read {
					o.Read(bytes, 20_000_000)
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				d := s.Work(nodeA).Doc
				if d.Open() || d.State != provision.DeployFail {
					t.Fatalf("state %q, result %+v", d.State, d.Result)
				}
				said := d.Result.Error
				if !strings.Contains(said, "did not call within 1m0s") || !strings.Contains(said, c.want) || c.want == "" && strings.Contains(said, "medium") {
					t.Errorf("it says %q, want %q", said, c.want)
				}
			})
		})
	}
}
