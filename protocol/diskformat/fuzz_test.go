package diskformat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzInspect lets a file be anything: it is refused, or told of with a size that a disk may have. The text of far lies at a place
// that headers may point to.
func FuzzInspect(f *testing.F) {
	vmdk := make([]byte, 4096)
	copy(vmdk, "KDMV\x01")
	binary.LittleEndian.PutUint64(vmdk[12:], 4096)
	binary.LittleEndian.PutUint64(vmdk[28:], 1)
	binary.LittleEndian.PutUint64(vmdk[36:], 20)
	copy(vmdk[512:], "createType=\"monolithicSparse\"\nRW 4096 SPARSE \"a\"\nparentCID=ffffffff\n")
	f.Add(vmdk, []byte{})
	vdi := make([]byte, 512)
	copy(vdi[64:], "\x7f\x10\xda\xbe")
	vdi[76], vdi[369] = 1, 1
	f.Add(vdi, []byte{})
	table := make([]byte, 64)
	copy(table, "regi")
	table[8] = 1
	copy(table[16:], vhdxMetaRegion)
	table[34] = 5
	f.Add([]byte("vhdxfile"), table)
	f.Add([]byte("conectix\x00\x00\x00\x02"), []byte("conectix"))
	f.Add([]byte("QFI\xfb\x00\x00\x00\x03"), []byte{})
	f.Fuzz(func(t *testing.T, head, far []byte) {
		file := make([]byte, 400<<10)
		copy(file, head)
		copy(file[192<<10:], far)
		i, err := Inspect(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if !errors.As(err, new(*Error)) {
				t.Errorf("an error of no file: %v", err)
			}
			return
		}
		if i.Bytes < 0 || i.Format == "" || i.Format != Raw && (i.Bytes == 0 || i.Bytes > 1<<62) {
			t.Errorf("%+v", i)
		}
	})
}
