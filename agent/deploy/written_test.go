package deploy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hints"
)

// withUnfit is a machine that has disks which nothing can be written to, too.
type withUnfit struct {
	both
	unfit []agentapi.UnfitDisk
}

func (m withUnfit) Settled(_ context.Context, _ bool, check func([]agentapi.Disk, []agentapi.UnfitDisk) error) ([]agentapi.Disk, error) {
	return m.both, check(m.both, m.unfit)
}

// The agent has started again since the write, and a kept disk holds an earlier instance of the same image: its table has the same
// identifier. The agent takes the written disk, or fails by the name of a disk that it cannot judge.
func TestTheWrittenDiskIsFoundAgain(t *testing.T) {
	t.Parallel()
	d, p, path := fixture(t, bootable(t))
	got, err := d.Prepare(t.Context(), p, ignore)
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := hints.ParseKept([]any{map[string]any{"serial": "KEEP"}})
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte(nil), image...)
	damaged[512+16] ^= 1 // the checksum of its first header
	dir := t.TempDir()
	add := func(name string, content []byte) agentapi.Disk {
		at := filepath.Join(dir, name)
		if content != nil {
			if err := os.WriteFile(at, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return agentapi.Disk{Name: at, Size: size, Serial: strings.ToUpper(name)}
	}
	written, keep, empty := add("written", image), add("keep", image), add("empty", make([]byte, size))
	gone, torn := add("gone", nil), add("torn", damaged) // gone stands for a disk that cannot be opened or read
	keptGone := gone
	keptGone.Serial = "KEEP"
	stick := gone
	stick.Removable = true
	unfit := func(d agentapi.Disk) []agentapi.UnfitDisk {
		return []agentapi.UnfitDisk{{Disk: d, Why: "in use"}}
	}
	for name, c := range map[string]struct {
		disks both
		unfit []agentapi.UnfitDisk
		rules hints.Kept
		want  string // part of the error; empty: the written disk is found
	}{
		"it is the only one":                         {disks: both{written, empty}},
		"the kept one holds the same":                {disks: both{keep, written}, rules: rules},
		"the kept one cannot be judged":              {disks: both{keptGone, written}, rules: rules},
		"the kept one is in use":                     {disks: both{written}, unfit: unfit(keptGone), rules: rules},
		"a stick is in use":                          {disks: both{written}, unfit: unfit(stick)},
		"it cannot be opened":                        {disks: both{gone, keep}, rules: rules, want: `cannot judge ` + gone.Name + ` (serial "GONE")`},
		"it cannot be opened, and no rules are told": {disks: both{gone, keep}, want: `cannot judge ` + gone.Name},
		"another cannot be opened":                   {disks: both{written, gone}, want: `cannot judge ` + gone.Name},
		"the table of another is damaged":            {disks: both{written, torn}, want: `cannot judge ` + torn.Name},
		"it is in use":                               {disks: both{keep}, unfit: unfit(gone), rules: rules, want: gone.Name + ` (serial "GONE"): it is in use`},
		"the kept one is not there":                  {disks: both{written, {Name: empty.Name, Size: size}}, rules: rules, want: "may be that disk"},
	} {
		again, _, _ := fixture(t, nil)
		again.Machine = withUnfit{c.disks, c.unfit}
		found, _, err := again.written(t.Context(), got.RootUUID, c.rules)
		var unjudged *UnjudgedError
		switch {
		case c.want == "" && (err != nil || found != written):
			t.Errorf("%s: %+v, %v", name, found, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(c.want, "judge") && !errors.As(err, &unjudged)):
			t.Errorf("%s: %+v, %v; want %q", name, found, err, c.want)
		}
	}
}
