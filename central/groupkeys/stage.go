package groupkeys

import (
	"context"
	"fmt"
	"time"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// The stages of a replacement, as the database and operators see them.
const (
	HandingOut  = "handing out"
	Sealing     = "sealing"
	Publishing  = "publishing"
	Ending      = "ending"
	Withdrawing = "withdrawing"
)

// Begin begins the replacement of a group's key, or begins it once more: the newest generation from now
// on is one that no member has yet.
func Begin(ctx context.Context, tx *store.Tx, group string, now time.Time) error {
	g, err := tx.GroupKey(ctx, group)
	if err != nil {
		return err
	}
	if g.Stage == "" {
		g.BeganAt = now
	}
	g.Newest++
	move(g, HandingOut, now)
	return tx.PutGroupKey(ctx, g)
}

func move(g *store.GroupKey, stage string, now time.Time) {
	g.Stage, g.StageAt, g.Hastened = stage, now, 0
}

// stageOf names a stage of one replacement.
func stageOf(g *store.GroupKey) string { return fmt.Sprintf("%d %s", g.Newest, g.Stage) }

// counted is for how long the row's stage has been watched, as the row says.
func counted(g *store.GroupKey) time.Duration {
	if g.CountedOf != stageOf(g) { // of a stage before
		return 0
	}
	return time.Duration(g.Counted) * time.Second
}

// Hasten has the keeper wait for nothing more in the group's present stage. It is an error where the
// group's key is not being replaced.
func Hasten(ctx context.Context, db *store.Store, group string) (stage string, err error) {
	err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		g, err := tx.GroupKey(ctx, group)
		if err != nil {
			return err
		}
		if g.Stage == "" {
			return fmt.Errorf("the key of conductor group %q is not being replaced", group)
		}
		stage, g.Hastened = g.Stage, 1
		return tx.PutGroupKey(ctx, g)
	})
	return stage, err
}

// Generations are the numbers that count for a group, the one that seals first.
func Generations(g *store.GroupKey) []uint64 {
	list := []uint64{uint64(g.Sealing)}
	if g.Newest != g.Sealing {
		list = append(list, uint64(g.Newest))
	}
	for n := g.Sealing - 1; n >= g.Oldest; n-- {
		list = append(list, uint64(n))
	}
	return list
}

// Derive returns the key that a row stands for.
func Derive(fleet *seal.Key, g *store.GroupKey) (*seal.Key, error) {
	return fleet.ForGroupAt(g.Group, Generations(g)...)
}

// Waits says what a stage waits for, for operators.
func Waits(stage string) string {
	return map[string]string{
		HandingOut:  "until the group's rackds have the new key",
		Sealing:     "until all replicas of central know of the new key",
		Publishing:  "until all nodes' documents are sealed with the new key",
		Ending:      "until work that began under the old key has ended",
		Withdrawing: "until the group's rackds have dropped the old key",
	}[stage]
}
