package iscsideploy

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// forSectorsOf512 is an image with data and the one partition of an MBR.
func forSectorsOf512() []byte {
	img := make([]byte, 6<<20)
	rand.NewChaCha8([32]byte{9}).Read(img)
	clear(img[:512])
	img[446], img[450], img[510], img[511] = 0x80, 0x83, 0x55, 0xaa
	binary.LittleEndian.PutUint32(img[454:], 2048)
	binary.LittleEndian.PutUint32(img[458:], 8192)
	return img
}

// An image whose table counts sectors of 512 bytes is refused on a disk of larger ones, as with the deploy interface direct. That is before
// anything is written. The size of one that is unpacked on the way is known at its end. Then the disk is wiped.
func TestAnImageForOtherSectors(t *testing.T) {
	plain := forSectorsOf512()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	gpt := bytes.Clone(plain)
	gpt[450] = 0xee
	binary.LittleEndian.PutUint32(gpt[454:], 1)
	copy(gpt[512:], "EFI PART")
	binary.LittleEndian.PutUint64(gpt[512+24:], 1)
	for name, c := range map[string]struct {
		file      []byte
		block     int
		want      string
		untouched bool
	}{
		"an MBR":          {plain, 4096, "its MBR is made for sectors of 512 bytes, disk /dev/vda has sectors of 4096: use an image made for such disks", true},
		"a GPT":           {gpt, 4096, "the image's GPT is made for sectors of 512 bytes, disk /dev/vda has sectors of 4096: use an image made for such disks", true},
		"a packed MBR":    {packed.Bytes(), 4096, "its MBR is made for sectors of 512 bytes", false},
		"on a usual disk": {plain, 512, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			fields := map[string]any{}
			if !c.untouched && c.want != "" {
				fields["image_compression"] = "gzip"
			}
			r := newRig(t, c.file, fields)
			r.agent.block = c.block
			before, err := os.ReadFile(r.agent.disk)
			if err != nil {
				t.Fatal(err)
			}
			err = r.through(r.iface)
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil {
				return
			}
			after, err := os.ReadFile(r.agent.disk)
			if err != nil || c.untouched && !bytes.Equal(before, after) || !bytes.Equal(before[:headSize], after[:headSize]) {
				t.Errorf("the disk was written to (%v)", err)
			}
			if last := r.agent.orders[len(r.agent.orders)-1]; last != agentapi.CmdStopISCSI {
				t.Errorf("the agent's orders: %v", r.agent.orders)
			}
		})
	}
}
