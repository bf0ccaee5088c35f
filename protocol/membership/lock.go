package membership

import (
	"context"

	"github.com/ironyard/ironyard/protocol/filelock"
)

// lockFile keeps two processes from renewing one folder at once: central knows the newest
// certificate, and that has to be the one that the folder has in the end.
const lockFile = ".lock"

func (m *Member) lock(ctx context.Context) (release func(), err error) {
	return filelock.Hold(ctx, m.Path(lockFile))
}
