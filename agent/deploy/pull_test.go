package deploy

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/agent/container"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// pulls is a podman that gets so many bytes each second, and then none for as long.
type pulls struct{ each, seconds int64 }

func (p pulls) Run(_ context.Context, j container.Job) error {
	for n := range 2 * p.seconds {
		j.Came(p.each * min(n+1, p.seconds))
		time.Sleep(time.Second)
	}
	return errNoJob
}

// A pull writes nothing to the disk. A rackd takes a command that tells a progress which does not move for one that hangs, and ends it
// with the deadline of the state. So the progress moves with the bytes that come, and stands where none comes.
func TestAPullThatMovesIsNoCommandThatHangs(t *testing.T) {
	const each, seconds = 1000, 20
	d, _ := contained(t, nil)
	d.Containers = pulls{each, seconds}
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		if _, err := d.InstallContainer(t.Context(), root(), Container{Source: "oci://r.example/os:1"}, func(p agentapi.Progress) { told = append(told, p.DoneBytes) }); err == nil {
			t.Fatal("a pull that fails is no error")
		}
		moved := slices.Compact(slices.Clone(told))
		if len(told) < 2*seconds-2 || len(moved) < seconds/2 || !slices.IsSorted(told) {
			t.Errorf("told %v", told)
		}
		if end := told[len(told)-seconds/2:]; end[0] != each*seconds || len(slices.Compact(end)) != 1 {
			t.Errorf("a pull that hangs moves: %v", told)
		}
	})
}
