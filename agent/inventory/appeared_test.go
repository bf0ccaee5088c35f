package inventory

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

func TestAppeared(t *testing.T) {
	m := Machine{Root: t.TempDir()}
	if err := os.Mkdir(filepath.Join(m.Root, "dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := func(name string) agentapi.Disk {
		if err := os.WriteFile(filepath.Join(m.Root, "dev", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return agentapi.Disk{Name: "/dev/" + name}
	}
	began := time.Now()
	older := made("sda")
	time.Sleep(300 * time.Millisecond)
	newer := made("sdb")
	age, known := m.Appeared([]agentapi.Disk{older})
	if !known {
		t.Skip("NOT RUN: the file system of this test's folder keeps no time of birth")
	}
	// File systems take the time from a clock that ticks.
	if age < 250*time.Millisecond || age > time.Since(began)+50*time.Millisecond {
		t.Errorf("the disk appeared %v ago, %v after the begin", age, time.Since(began))
	}
	if both, known := m.Appeared([]agentapi.Disk{older, newer}); !known || both >= age {
		t.Errorf("the newest of both appeared %v ago (known: %t), the older one %v", both, known, age)
	}
	for name, disks := range map[string][]agentapi.Disk{"no disk": nil, "a disk without a file": {older, {Name: "/dev/sdc"}}} {
		if age, known := m.Appeared(disks); known {
			t.Errorf("%s appeared %v ago", name, age)
		}
	}
	if age, known := (Machine{DiskFiles: []string{"x"}}).Appeared([]agentapi.Disk{older}); known {
		t.Errorf("a file that stands in for a disk appeared %v ago", age)
	}
}
