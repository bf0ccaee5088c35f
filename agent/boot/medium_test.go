package boot

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/agent/paramdisk"
)

const pin = "abababababababababababababababababababababababababababababababab"

// What the second medium says wins, and is known to an agent that is started again. Without the medium an agent goes on that knows where
// to call, and one that does not know it ends.
func TestParametersOfTheSecondMedium(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	const line = "console=ttyS0 ipa-debug=1 boot_method=vmedia ipa-api-url=https://old BOOTIF=01-52-54-00-00-00-01"
	disk := func(text string, err error) func(context.Context, *slog.Logger) (string, error) {
		return func(context.Context, *slog.Logger) (string, error) { return text, err }
	}
	started := func(line string) Flags {
		f := Flags{Ramdisk: true}
		if err := f.commanded(line); err != nil {
			t.Fatal(err)
		}
		return f
	}
	kept := filepath.Join(t.TempDir(), "run", "parameters")
	told := "ipa-api-url=https://new/boot/x,https://other ironyard-api-fingerprint=" + pin + " ironyard-node=n"
	for _, words := range []func(context.Context, *slog.Logger) (string, error){disk(told, nil), disk("", errors.New("it is read again"))} {
		f := started(line)
		if err := f.askMedium(t.Context(), log, kept, words); err != nil {
			t.Fatal(err)
		}
		if f.APIURL != "https://new/boot/x,https://other" || f.APIFingerprint != pin || f.Node != "n" || !f.Debug || f.BootMAC != "52:54:00:00:00:01" {
			t.Errorf("%+v", f)
		}
	}
	nothing := filepath.Join(t.TempDir(), "none")
	f := started(line)
	if err := f.askMedium(t.Context(), log, nothing, disk("", paramdisk.ErrNone)); err != nil || f.APIURL != "https://old" {
		t.Errorf("without the medium: %v, %q", err, f.APIURL)
	}
	f = started("boot_method=vmedia")
	if err := f.askMedium(t.Context(), log, nothing, disk("", paramdisk.ErrNone)); !errors.Is(err, paramdisk.ErrNone) {
		t.Errorf("without a URL: %v", err)
	}
	if err := f.askMedium(t.Context(), log, nothing, disk("ipa-api-url=ftp://x", nil)); err == nil || !strings.Contains(err.Error(), "second medium") {
		t.Errorf("what cannot be read: %v", err)
	}
	f = started("ipa-api-url=https://old")
	if err := f.askMedium(t.Context(), log, kept, disk("ipa-api-url=https://evil", nil)); err != nil || f.APIURL != "https://old" {
		t.Errorf("that was not asked: %v, %q", err, f.APIURL)
	}
}
