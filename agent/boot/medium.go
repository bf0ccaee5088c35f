package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/ironyard/ironyard/agent/paramdisk"
)

// mediumFile keeps what a second medium has told: it may be gone when the agent is started again.
const mediumFile = "/run/ironyard/medium-parameters"

// askMedium takes the settings that a second virtual medium tells. They win over those of the kernel command line, as with
// ironic-python-agent. Where none comes, an agent goes on if its command line names a rackd.
func (f *Flags) askMedium(ctx context.Context, log *slog.Logger, kept string, words func(context.Context, *slog.Logger) (string, error)) error {
	if !f.Ramdisk || !f.ByMedium {
		return nil
	}
	text, err := os.ReadFile(kept)
	switch {
	case err == nil:
		return f.toldByMedium(string(text))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	told, err := words(ctx, log)
	switch {
	case errors.Is(err, paramdisk.ErrNone) && (f.APIURL != "" || f.asks()):
		log.Warn("the agent goes on with its kernel command line", "error", err)
		return nil
	case err != nil:
		return err
	}
	if err := f.toldByMedium(told); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept), 0o700), os.WriteFile(kept, []byte(told), 0o600)); err != nil {
		log.Warn("the agent would have to read its parameters again", "error", err)
	}
	return nil
}

func (f *Flags) toldByMedium(words string) error {
	f.APIURL = ""
	if err := f.kernel(f.commandLine + " " + words); err != nil {
		return fmt.Errorf("the parameters of the second medium: %w", err)
	}
	return nil
}
