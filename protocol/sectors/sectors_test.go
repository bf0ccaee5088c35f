package sectors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// mbr is the start of an image with a partition of each of the types, from a sector on.
func mbr(start uint32, types ...byte) []byte {
	head := make([]byte, 8192)
	head[510], head[511] = 0x55, 0xaa
	for i, kind := range types {
		e := head[mbrTable+16*i:]
		e[0], e[4] = 0x80, kind
		binary.LittleEndian.PutUint32(e[8:], start)
	}
	return head
}

// gpt is the start of an image with a GPT and its protective MBR.
func gpt(sector int) []byte {
	head := mbr(1, 0xee)
	copy(head[sector:], gptSignature)
	return head
}

// long gives the first partition of an image a length in sectors.
func long(head []byte, length uint32) []byte {
	binary.LittleEndian.PutUint32(head[mbrTable+12:], length)
	return head
}

func TestFit(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		head          []byte
		image, sector int64
		want          string
	}{
		"an MBR for sectors of 512":              {mbr(2048, 0x83), 6 * mib, 4096, "its MBR is made for sectors of 512 bytes, disk sda has sectors of 4096: use an image made for such disks"},
		"an MBR of a large image for 512":        {long(mbr(2048, 0x83), 24_000), 20 * mib, 4096, "its MBR is made for sectors of 512 bytes, disk sda has sectors of 4096: use an image made for such disks"},
		"an MBR of a large image for 4096":       {long(mbr(256, 0x83), 4_800), 20 * mib, 4096, ""},
		"a GPT of before behind an MBR":          {append(long(mbr(256, 0x83), 512)[:512], gpt(512)[512:]...), 6 * mib, 4096, ""},
		"an MBR for sectors of 4096":             {mbr(256, 0x83), 6 * mib, 4096, ""},
		"an MBR on a usual disk":                 {mbr(2048, 0x83), 6 * mib, 512, ""},
		"an MBR of an image of unknown size":     {mbr(2048, 0x83), 0, 4096, ""},
		"an empty MBR":                           {mbr(2048, 0), 6 * mib, 4096, ""},
		"a GPT for sectors of 512":               {gpt(512), 6 * mib, 4096, "the image's GPT is made for sectors of 512 bytes, disk sda has sectors of 4096: use an image made for such disks"},
		"the same, and the size is not known":    {gpt(512), 0, 4096, "the image's GPT is made for sectors of 512 bytes, disk sda has sectors of 4096: use an image made for such disks"},
		"a GPT for sectors of 4096":              {gpt(4096), 6 * mib, 4096, ""},
		"a GPT for sectors of 4096, usual disk":  {gpt(4096), 6 * mib, 512, "the image's GPT is made for sectors of 4096 bytes, disk sda has sectors of 512: use an image made for such disks"},
		"a boot sector of a file system":         {append(mbr(2048, 0x83, 0x83)[:462], append([]byte("text and text and"), mbr(2048)[479:]...)...), 6 * mib, 4096, ""},
		"no table at all":                        {make([]byte, 8192), 6 * mib, 4096, ""},
		"an image that is shorter than a sector": {mbr(2048, 0x83)[:100], 100, 4096, ""},
	} {
		err := Fit(bytes.NewReader(c.head), c.image, "sda", c.sector)
		if wrong, is := errors.AsType[*Error](err); err != nil != (c.want != "") || is && wrong.Error() != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
