package consolecopy

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/seal"
)

const node = "11111111-1111-4111-8111-111111111111"

func newKey(t *testing.T) *seal.Key {
	t.Helper()
	k, err := seal.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bootLog is text like that of a Linux kernel that boots.
func bootLog(most int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for at := 0.0; b.Len() < most; at += r.Float64() / 10 {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "[%12.6f] pci 0000:%02x:%02x.%d: [8086:%04x] type 00 class 0x%06x\r\n", at, r.IntN(256), r.IntN(32), r.IntN(8), r.IntN(65536), r.IntN(1<<24))
		case 1:
			fmt.Fprintf(&b, "[%12.6f] BIOS-e820: [mem 0x%016x-0x%016x] usable\r\n", at, r.Uint64N(1<<40), r.Uint64N(1<<40))
		case 2:
			fmt.Fprintf(&b, "[%12.6f] systemd[1]: Started session-%d.scope - Session %d of User root.\r\n", at, r.IntN(999), r.IntN(999))
		default:
			fmt.Fprintf(&b, "[%12.6f] usb %d-%d: new high-speed USB device number %d using xhci_hcd\r\n", at, r.IntN(9), r.IntN(9), r.IntN(99))
		}
	}
	return b.Bytes()[:most]
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{7})
	b := make([]byte, n)
	r.Read(b)
	return b
}

func TestWhatIsSealedOpens(t *testing.T) {
	key := newKey(t)
	for name, c := range map[string]struct {
		text  []byte
		least int // of it that is kept
	}{
		"a line":             {[]byte("Kernel panic - not syncing: Fatal exception\r\n"), 45},
		"a boot's log":       {bootLog(MaxText), MaxText * 3 / 4},
		"lines that repeat":  {bytes.Repeat([]byte("login: \r\n"), MaxText/9), MaxText / 9 * 9},
		"noise":              {noise(MaxText), MaxBytes * 9 / 10},
		"a little too much":  {noise(MaxBytes), MaxBytes * 9 / 10},
		"noise that ends it": {append(bytes.Repeat([]byte("x"), MaxText-MaxBytes), noise(MaxBytes)...), MaxBytes * 8 / 10},
		"more than is kept":  {bootLog(MaxText + 5000), MaxText * 3 / 4},
	} {
		t.Run(name, func(t *testing.T) {
			in := Copy{Log: "L", Tenancy: "t1", End: 1 << 30, Rackd: "r1", At: time.Now().UTC(), Text: c.text}
			body, err := in.Seal(key, node, MaxBytes)
			if err != nil {
				t.Fatal(err)
			}
			if len(body) > MaxBytes {
				t.Errorf("the copy has %d bytes", len(body))
			}
			if at := bytes.Index(body, []byte{0x28, 0xb5, 0x2f, 0xfd}); at >= 0 { // zstd's magic number; a cipher may have it by chance
				z, err := unpacker()
				if err != nil {
					t.Fatal(err)
				}
				if said, err := z.DecodeAll(body[at:], nil); err == nil {
					t.Errorf("what it says can be read without the key: %.80q", said)
				}
			}
			out, err := Open(key, node, body)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes of %d in %d", len(out.Text), len(c.text), len(body))
			if !bytes.HasSuffix(c.text, out.Text) || len(out.Text) < c.least || len(out.Text) > MaxText {
				t.Errorf("%d bytes of %d came back, want the last %d at least", len(out.Text), len(c.text), c.least)
			}
			in.Text, out.Text = nil, nil
			if fmt.Sprint(in) != fmt.Sprint(out) {
				t.Errorf("%+v came back as %+v", in, out)
			}
		})
	}
}

// A copy opens for its node with its group's key alone; whatever else lies there is an error, and takes no memory.
func TestWhatIsNoCopyOfTheNode(t *testing.T) {
	key := newKey(t)
	body, err := Copy{Log: "L", End: 4, Text: []byte("text")}.Seal(key, node, MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(packed []byte) []byte { return append([]byte{form}, key.SealBytes(label(node), packed)...) }
	packed := func(plain string) []byte {
		z, err := packer()
		if err != nil {
			t.Fatal(err)
		}
		return z.EncodeAll([]byte(plain), nil)
	}
	head := `{"log":"L","end":%d}` + "\n"
	flipped := bytes.Clone(body)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		key  *seal.Key
		node string
		body []byte
		want error // nil: any
	}{
		"another node's":              {key, "22222222-2222-4222-8222-222222222222", body, seal.ErrOpen},
		"another group's":             {newKey(t), node, body, seal.ErrOpen},
		"changed":                     {key, node, flipped, seal.ErrOpen},
		"cut off":                     {key, node, body[:len(body)-3], seal.ErrOpen},
		"a byte":                      {key, node, body[:1], seal.ErrOpen},
		"nothing":                     {key, node, nil, ErrForm},
		"of a newer form":             {key, node, append([]byte{form + 1}, body[1:]...), ErrForm},
		"JSON":                        {key, node, []byte(`{"log":"L"}`), ErrForm},
		"too large":                   {key, node, append(bytes.Clone(body), make([]byte, MaxBytes)...), nil},
		"not packed":                  {key, node, sealed([]byte("no zstd")), nil},
		"a bomb":                      {key, node, sealed(packed(fmt.Sprintf(head, 64<<20) + strings.Repeat("\x00", 64<<20))), nil},
		"a little more than is taken": {key, node, sealed(packed(fmt.Sprintf(head, 1<<20) + strings.Repeat("x", MaxText+1))), nil},
		"without a head":              {key, node, sealed(packed("text")), nil},
		"with a head that is no JSON": {key, node, sealed(packed("head\ntext")), nil},
		"of no log":                   {key, node, sealed(packed("{\"end\":9}\ntext")), nil},
		"with an end before its text": {key, node, sealed(packed(fmt.Sprintf(head, 3) + "text")), nil},
		"another kind":                {key, node, append([]byte{form}, key.SealBytes(seal.Label{Kind: seal.SentDrive, Of: node}, packed(fmt.Sprintf(head, 4)+"text"))...), seal.ErrOpen},
	} {
		c2, err := Open(c.key, c.node, c.body)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v, want %v", name, c2, err, c.want)
		}
	}
}

// A copy of before the key was replaced opens, and is told to be late, while the older key is there.
func TestCopyUnderAnOlderKey(t *testing.T) {
	old, fresh := newKey(t), newKey(t)
	body, err := Copy{Log: "L", End: 4, Text: []byte("text")}.Seal(old, node, MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Open(fresh.WithOlder(old), node, body); err != nil || !c.Late || string(c.Text) != "text" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Open(old, node, body); err != nil || c.Late {
		t.Errorf("under its own key: %+v, %v", c, err)
	}
	if _, err := Open(fresh, node, body); !errors.Is(err, seal.ErrOpen) {
		t.Errorf("without the older key: %v", err)
	}
}

// FuzzOpen: who may write on the bus cannot make a reader fail.
func FuzzOpen(f *testing.F) {
	key, err := seal.NewKey(make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	body, err := Copy{Log: "L", End: 4, Text: []byte("text")}.Seal(key, node, MaxBytes)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte{form})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Open(key, node, append([]byte{form}, key.SealBytes(label(node), b)...))
		if err == nil && (len(c.Text) > MaxText || c.Log == "") {
			t.Errorf("%+v", c)
		}
		if _, err := Open(key, node, b); err == nil && !bytes.Equal(b, body) {
			t.Error("what was not sealed opens")
		}
	})
}
