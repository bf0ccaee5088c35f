package debkernel

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// kernel fetches the cloud kernel once for all tests of the machine.
func kernel(t *testing.T) Kernel {
	t.Helper()
	cache := os.Getenv("IRONYARD_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir()
		}
		cache = filepath.Join(user, "ironyard")
	}
	started := time.Now()
	k, err := Fetch(t.Context(), filepath.Join(cache, "kernel"), Cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kernel %s after %s", k.Version, time.Since(started).Round(time.Millisecond))
	return k
}

func TestFetchAndOrder(t *testing.T) {
	k := kernel(t)
	if st, err := os.Stat(k.Image); err != nil || st.Size() < 1<<20 {
		t.Errorf("image %s: %v", k.Image, err)
	}
	files, err := k.Modules("virtio_pci", "virtio-net", "virtio_blk", "vfat", "isofs", "nls_cp437", "nls_ascii")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
		if !strings.HasPrefix(f.Target, "kernel/") || !strings.HasSuffix(f.Target, ".ko") {
			t.Errorf("%s: target %s", f.Name, f.Target)
		}
	}
	t.Log(names)
	before := func(first, then string) {
		t.Helper()
		i, j := slices.Index(names, first), slices.Index(names, then)
		if i < 0 || j < 0 || i > j {
			t.Errorf("%s (at %d) must come before %s (at %d)", first, i, then, j)
		}
	}
	before("virtio_ring", "virtio")
	before("virtio", "virtio_pci")
	before("virtio_pci_modern_dev", "virtio_pci")
	before("failover", "net_failover")
	before("net_failover", "virtio_net")
	before("fat", "vfat")
	slices.Sort(names)
	if len(slices.Compact(names)) != len(files) {
		t.Error("a module is listed twice")
	}
}

func TestUnknownModuleAndBuiltin(t *testing.T) {
	k := kernel(t)
	if _, err := k.Modules("no_such_module"); err == nil {
		t.Error("unknown module accepted")
	}
	builtin, err := k.builtin()
	if err != nil || len(builtin) == 0 {
		t.Fatalf("built-in modules: %d, %v", len(builtin), err)
	}
	for name := range builtin {
		if files, err := k.Modules(name); err != nil || len(files) != 0 {
			t.Errorf("built-in %s: %d files, error %v", name, len(files), err)
		}
		break
	}
}

func TestFetchRefusesOddNames(t *testing.T) {
	for _, name := range []string{"", "../etc", "-o", "A"} {
		if _, err := Fetch(t.Context(), t.TempDir(), name); err == nil {
			t.Errorf("package name %q accepted", name)
		}
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = infoOf(data)
	})
}
