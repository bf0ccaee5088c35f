package disks

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const mib = 1 << 20

// old fills each disk before the test: what a former tenant has left.
const old = 0xd7

// drive is one disk of the machine, named by its serial number.
type drive struct {
	serial string
	size   int64
	// device is QEMU's disk with its properties, without drive and serial.
	device string
	// fails makes requests to the disk fail that touch a place of it.
	fails []failure
	// lies: it takes each write, and reads as zero.
	lies     bool
	readOnly bool
	// pace is how many bytes a second it reads and writes; 0: as many as come.
	pace int64
	// late: it is put in by the test, not at the start.
	late bool
}

// failure is what QEMU answers to one kind of request (blkdebug's iotype).
type failure struct {
	iotype string
	errno  int
	at     int64 // a byte of the disk that the request touches
}

func (d drive) path(dir string) string { return filepath.Join(dir, d.serial) }

// rules is the file that tells QEMU's blkdebug what fails.
func (d drive) rules(dir string) string { return d.path(dir) + ".rules" }

// prepare writes what is on the disk before.
func (d drive) prepare(t *testing.T, dir string) {
	t.Helper()
	var rules strings.Builder
	for _, f := range d.fails {
		fmt.Fprintf(&rules, "[inject-error]\nevent = \"none\"\niotype = \"%s\"\nerrno = \"%d\"\nsector = \"%d\"\nonce = \"off\"\n", f.iotype, f.errno, f.at/512)
	}
	if err := os.WriteFile(d.rules(dir), []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if d.lies {
		return
	}
	if err := os.WriteFile(d.path(dir), bytes.Repeat([]byte{old}, int(d.size)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// arguments are QEMU's for the disk.
func (d drive) arguments(dir string) []string {
	node := "n-" + d.serial
	file := fmt.Sprintf("driver=file,node-name=%s-file,filename=%s,cache.direct=off,cache.no-flush=on,discard=unmap,read-only=%s", node, d.path(dir), onOff(d.readOnly))
	if d.lies {
		file = fmt.Sprintf("driver=null-co,node-name=%s-file,size=%d,read-zeroes=on", node, d.size)
	}
	args := []string{"-blockdev", file}
	top := node + "-file"
	if len(d.fails) > 0 {
		broken := fmt.Sprintf("driver=blkdebug,node-name=%s-broken,image=%s,config=%s", node, top, d.rules(dir))
		args, top = append(args, "-blockdev", broken), node+"-broken"
	}
	if d.pace > 0 {
		args = append(args, "-object", fmt.Sprintf("throttle-group,id=%s-pace,x-bps-total=%d", node, d.pace),
			"-blockdev", fmt.Sprintf("driver=throttle,node-name=%s-slow,throttle-group=%s-pace,file=%s", node, node, top))
		top = node + "-slow"
	}
	args = append(args, "-blockdev", fmt.Sprintf("driver=raw,node-name=%s,file=%s,read-only=%s", node, top, onOff(d.readOnly)))
	if d.device != "" && !d.late {
		args = append(args, "-device", d.device+",drive="+node+",serial="+d.serial)
	}
	return args
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// part reads n bytes of the disk from off.
func (d drive) part(t *testing.T, dir string, off, n int64) []byte {
	t.Helper()
	f, err := os.Open(d.path(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(f, off, n), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// holds reports whether the whole disk has that byte.
func (d drive) holds(t *testing.T, dir string, b byte) error {
	t.Helper()
	got := d.part(t, dir, 0, d.size)
	for i, is := range got {
		if is != b {
			return fmt.Errorf("disk %s: byte %d of %d is 0x%02x, want 0x%02x", d.serial, i, len(got), is, b)
		}
	}
	return nil
}

// scsi are the properties of a disk at the machine's SCSI controller.
func scsi(lun int, more string) string {
	return "scsi-hd,bus=scsi.0,scsi-id=" + strconv.Itoa(lun) + ",werror=report,rerror=report" + more
}
