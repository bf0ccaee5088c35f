package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// remembers is a deploy interface whose agent has told of its steps before.
type remembers struct {
	ramdisk
	names map[driver.Flows][]string
}

func (r remembers) Remembered(_ *node.Document, f driver.Flows) ([]string, bool) {
	names, known := r.names[f]
	return names, known
}

// A step that nothing has switches an instance off, and is found missing in the ramdisk only. It is refused before that where the
// ramdisk's agent has told of its steps.
func TestAStepThatTheAgentLacksTakesNoInstanceDown(t *testing.T) {
	told := map[driver.Flows][]string{driver.InDeploy: {"deploy.tune"}, driver.InService: {}}
	for _, c := range []struct {
		name     string
		step     string
		told     map[driver.Flows][]string
		instance bool
		refused  map[driver.Flows]bool
	}{
		{"misspelt", "tuen", told, true, map[driver.Flows]bool{driver.InDeploy: true, driver.InService: true}},
		{"one that it has", "tune", told, true, map[driver.Flows]bool{driver.InService: true}},
		{"nothing was told yet", "tuen", nil, true, nil},
		{"no instance runs", "tuen", told, false, nil},
	} {
		for _, f := range []driver.Flows{driver.InDeploy, driver.InService} {
			r := request(t, true, driver.AskedStep{Interface: "deploy", Step: c.step, Priority: 50, Place: 1})
			kinds := map[string][]driver.Named{}
			for kind, named := range r.Hardware.Kinds() {
				kinds[kind] = []driver.Named{named}
			}
			kinds["deploy"] = []driver.Named{{Name: "agent", Impl: remembers{ramdisk{r.Hardware.Deploy().(ramdisk).Deploy}, c.told}}}
			reg, err := driver.NewRegistry(driver.Type{Name: "t", Interfaces: kinds})
			if err != nil {
				t.Fatal(err)
			}
			if r.Hardware, err = reg.Resolve(r.Node); err != nil {
				t.Fatal(err)
			}
			r.Instance = c.instance
			if f == driver.InDeploy {
				_, err = r.Deploy()
			} else {
				_, err = r.Listed(f)
			}
			if refused := errors.Is(err, driver.ErrInvalid); refused != c.refused[f] || refused && !strings.Contains(err.Error(), "does not support this "+f.String()+" step: deploy."+c.step) {
				t.Errorf("%s, %s: %v", c.name, f, err)
			}
		}
	}
}
