package bootmedium

import (
	"bytes"
	"fmt"
	"path"
	"strings"
)

// archive is a cpio archive in the kernel's format (newc, Documentation/driver-api/early-userspace/buffer-format.rst)
// with the files of one boot. The kernel unpacks it over the ramdisk's own files.
func archive(networkData []byte) []byte {
	var b bytes.Buffer
	inode := 0
	entry := func(name string, mode, links int, data []byte) {
		inode++
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
			inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
		pad4(&b)
		b.Write(data)
		pad4(&b)
	}
	if len(networkData) > 0 {
		dir := path.Dir(NetworkDataFile)
		for i, c := range dir + "/" {
			if c == '/' {
				entry(dir[:i], 0o040755, 2, nil)
			}
		}
		entry(NetworkDataFile, 0o100644, 1, networkData)
	}
	entry("TRAILER!!!", 0, 1, nil)
	b.WriteString(strings.Repeat("\x00", (512-b.Len()%512)%512))
	return b.Bytes()
}

func pad4(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
