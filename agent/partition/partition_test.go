package partition

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// memory is a disk in memory.
type memory struct {
	data   []byte
	sector int64
}

func (m *memory) Name() string      { return "mem" }
func (m *memory) Size() int64       { return int64(len(m.data)) }
func (m *memory) SectorSize() int64 { return m.sector }
func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.data).ReadAt(p, off)
}
func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(p)) > m.Size() {
		return 0, errors.New("beyond the end")
	}
	return copy(m.data[off:], p), nil
}

// sfdisk lets util-linux make a table, so that we do not only read our own.
func sfdisk(t testing.TB, size int64, script string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk (Debian package fdisk): %v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// verify lets util-linux judge a table and returns its dump.
func verify(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors detected")) {
		t.Errorf("sfdisk --verify: %v: %s", err, out)
	}
	out, err := exec.Command("sfdisk", "--dump", path).Output()
	if err != nil {
		t.Fatalf("sfdisk --dump: %v", err)
	}
	return string(out)
}

const gptScript = "label: gpt\nsize=8MiB, type=U, name=esp\nsize=4MiB, type=L, name=\"rööt\"\n"

func TestGPTGrowsAndTakesConfigDrive(t *testing.T) {
	t.Parallel()
	image := sfdisk(t, 20<<20, gptScript)
	disk := &memory{data: append(image, make([]byte, 80<<20)...), sector: 512}
	tab, err := Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	before := tab.Partitions()
	if tab.Kind() != GPT || len(before) != 2 || before[0].Type != TypeESP || before[1].Label != "rööt" {
		t.Fatalf("read %v %+v", tab.Kind(), before)
	}
	if err := tab.GrowToDisk(); err != nil {
		t.Fatal(err)
	}
	p, err := tab.AddLast("config-2", 3<<20+1)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.Write(); err != nil {
		t.Fatal(err)
	}
	dump := verify(t, disk.data)
	if !strings.Contains(dump, `name="config-2"`) || strings.Count(dump, "start=") != 3 {
		t.Errorf("sfdisk sees\n%s", dump)
	}
	again, err := Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	parts := again.Partitions()
	if len(parts) != 3 || parts[0] != before[0] || parts[1] != before[1] || parts[2] != p {
		t.Errorf("after: %+v", parts)
	}
	if p.Size != 4<<20 || p.Start%mib != 0 || p.Number != 3 || p.Start < 94<<20 {
		t.Errorf("config drive at %+v", p)
	}
}

func TestGPTWithoutRoom(t *testing.T) {
	t.Parallel()
	disk := &memory{data: sfdisk(t, 16<<20, gptScript), sector: 512}
	tab, err := Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	if err := tab.GrowToDisk(); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.AddLast("config-2", 8<<20); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("AddLast: %v", err)
	}
	// The partitions end where a smaller disk keeps its backup table.
	disk.data = disk.data[:13<<20]
	if tab, err = Read(disk); err != nil {
		t.Fatal(err)
	}
	if err := tab.GrowToDisk(); err == nil {
		t.Error("grew onto a disk whose end is taken")
	}
}

func TestMBR(t *testing.T) {
	t.Parallel()
	disk := &memory{data: sfdisk(t, 20<<20, "label: dos\nsize=8MiB, type=83, bootable\nsize=4MiB, type=83\n"), sector: 512}
	disk.data = append(disk.data, make([]byte, 40<<20)...)
	tab, err := Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	if tab.Kind() != MBR || len(tab.Partitions()) != 2 {
		t.Fatalf("read %v %+v", tab.Kind(), tab.Partitions())
	}
	for want := 3; want <= 4; want++ {
		p, err := tab.AddLast("config-2", 1<<20)
		if want == 3 {
			if err != nil || p.Number != 3 || p.Start != 59<<20 {
				t.Errorf("AddLast = %+v, %v", p, err)
			}
		} else if err == nil {
			t.Error("a second one after the last MiB accepted")
		}
	}
	if err := tab.Write(); err != nil {
		t.Fatal(err)
	}
	if dump := verify(t, disk.data); strings.Count(dump, "start=") != 3 || !strings.Contains(dump, "bootable") {
		t.Errorf("sfdisk sees\n%s", dump)
	}
}

func TestMBRFull(t *testing.T) {
	t.Parallel()
	disk := &memory{data: sfdisk(t, 20<<20, "label: dos\nsize=1MiB\nsize=1MiB\nsize=1MiB\nsize=1MiB\n"), sector: 512}
	tab, err := Read(disk)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.AddLast("config-2", 1<<20); err == nil || !strings.Contains(err.Error(), "four primary") {
		t.Errorf("AddLast: %v", err)
	}
}

func TestNoOrWrongTable(t *testing.T) {
	if _, err := Read(&memory{data: make([]byte, 1<<20), sector: 512}); !errors.Is(err, ErrNone) {
		t.Errorf("empty disk: %v", err)
	}
	data := sfdisk(t, 20<<20, gptScript)
	if _, err := Read(&memory{data: data, sector: 4096}); err == nil || !strings.Contains(err.Error(), "4096") {
		t.Errorf("sector sizes differ: %v", err)
	}
	data[512+100]++
	if _, err := Read(&memory{data: data, sector: 512}); err != nil {
		t.Errorf("byte after the header matters: %v", err)
	}
	data[512+40]++
	if _, err := Read(&memory{data: data, sector: 512}); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("damaged header: %v", err)
	}
}
