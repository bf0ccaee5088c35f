package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/ironyard/ironyard/central/reseal"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/secretfile"
)

// keyVariable is the environment's variable that may hold the key itself.
const keyVariable = "CENTRAL_KEY"

type keyFile struct {
	KeyFile string `help:"File with the key that seals secrets in the database ('central key generate' makes one). Further lines are older keys, which can still open secrets. Default: the environment variable CENTRAL_KEY." type:"existingfile" placeholder:"FILE" env:"CENTRAL_KEY_FILE"`
}

// key reads the fleet's key from the file or the environment.
func (k keyFile) key(log *slog.Logger) (*seal.Key, error) {
	text, where := os.Getenv(keyVariable), keyVariable
	if k.KeyFile != "" {
		raw, err := secretfile.Read(k.KeyFile, log)
		if err != nil {
			return nil, fmt.Errorf("secret key: %w", err)
		}
		text, where = string(raw), k.KeyFile
	} else if text == "" {
		return nil, errors.New("central needs its secret key: --key-file, or the variable " + keyVariable)
	}
	key, err := seal.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return key, nil
}

type keyCommand struct {
	Generate keyGenerate `cmd:"" help:"Print a new fleet key, as 'ironyard key generate' does. Keep it: without it the secrets in the database are lost."`
	Groups   listKeys    `cmd:"" help:"List the conductor groups whose key was replaced, with the progress of replacements under way."`
	Replace  replaceKey  `cmd:"" help:"Replace the key of a conductor group. Revoking one of its rackds does the same."`
	Hasten   hastenKey   `cmd:"" help:"Move the replacement of a conductor group's key to its next stage, without waiting for rackds or work."`
	Rotate   rotateKey   `cmd:"" help:"Seal all secrets in the database with the first key of the file. Run it again if it was interrupted."`
}

type keyGenerate struct{}

// Run is called by kong.
func (keyGenerate) Run(out io.Writer) error {
	key, err := seal.GenerateKey()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, key.Text())
	return err
}

type rotateKey struct {
	database
	keyFile
}

// Run is called by kong.
func (r *rotateKey) Run(ctx context.Context, log *slog.Logger) error {
	key, err := r.key(log)
	if err != nil {
		return err
	}
	db, err := openUsed(ctx, r.Database, true)
	if err != nil {
		return err
	}
	done, err := reseal.All(ctx, db, key)
	if err == nil {
		log.Info("everything is sealed with the first key", "nodes_sealed_anew", done.Nodes, "secrets_sealed_anew", done.Secrets, "current_before", done.Current)
	}
	return errors.Join(err, db.Close())
}

// openUsed opens a database that a central has used: another would answer a mistyped address
// with a fleet of its own. Its schema is brought up to date where migrate says so.
func openUsed(ctx context.Context, address string, migrate bool) (*store.Store, error) {
	db, err := store.Open(ctx, address, store.Options{Existing: true})
	if err != nil {
		return nil, err
	}
	if _, err := db.Pending(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("central has not used this database yet ('central migrate' prepares one): %w", err), db.Close())
	}
	if !migrate {
		return db, nil
	}
	if _, err := db.Migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
