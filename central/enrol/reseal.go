package enrol

import (
	"context"
	"fmt"

	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Reseal brings the vault under the newest generation of key and returns how many of
// its entries were not.
func Reseal(ctx context.Context, db *store.Store, key *seal.Key) (n int, err error) {
	for after := ""; ; {
		list, err := db.Secrets(ctx, after, 256)
		if err != nil || len(list) == 0 {
			return n, err
		}
		for _, s := range list {
			after = s.Name
			if key.Current(vaultLabel(s.Name), s.Value) {
				continue
			}
			text, err := key.Open(vaultLabel(s.Name), s.Value)
			if err != nil {
				return n, fmt.Errorf("entry %q of the vault: %w", s.Name, err)
			}
			err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				return tx.ReplaceSecret(ctx, s, key.Seal(vaultLabel(s.Name), text))
			})
			if err != nil {
				return n, err
			}
			n++
		}
	}
}
