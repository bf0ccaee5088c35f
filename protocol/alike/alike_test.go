package alike

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// text is one of many that are alike.
func text(i int) []byte {
	return fmt.Appendf(nil, `{"name":"node-%d","address":"https://10.0.%d.%d","interfaces":[%s"last"]}`, i, i/250, i%250, strings.Repeat(`"redfish","direct",`, 20))
}

func TestComesBackInAFractionOfItsSize(t *testing.T) {
	p := Packer{Sample: 4 << 10}
	const many = 1000
	packed := make([]Packed, many)
	var all sync.WaitGroup
	for c := range 4 {
		all.Go(func() {
			for i := c; i < many; i += 4 {
				packed[i] = p.Pack(text(i))
			}
		})
	}
	all.Wait()
	taken, plain := 0, 0
	for i, k := range packed {
		want := text(i)
		taken, plain = taken+k.Taken(), plain+len(want)
		got, err := k.Append([]byte("before"))
		if err != nil || string(got) != "before"+string(want) || k.Len() != len(want) {
			t.Fatalf("text %d of length %d came back as %s, %v", i, k.Len(), got, err)
		}
		if err := k.Read(func(got []byte) error {
			if !bytes.Equal(got, want) {
				t.Errorf("text %d is read as %s", i, got)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if taken > plain/5 {
		t.Errorf("%d bytes take %d, want a fifth at most", plain, taken)
	}
	no := errors.New("no")
	if err := packed[many-1].Read(func([]byte) error { return no }); !errors.Is(err, no) {
		t.Errorf("the reader's error became %v", err)
	}
	if empty := p.Pack(nil); empty.Len() != 0 {
		t.Errorf("nothing is %d long", empty.Len())
	} else if b, err := empty.Append(nil); err != nil || len(b) != 0 {
		t.Errorf("nothing came back as %q, %v", b, err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	p := Packer{Sample: 1}
	p.Pack(text(1))
	for _, body := range []string{"", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "\x05\x00"} {
		damaged := Packed{[]byte(body), p.Pack(text(2)).dict}
		if b, err := damaged.Append(nil); err == nil {
			t.Errorf("%q is unpacked as %q", body, b)
		}
		if err := damaged.Read(func([]byte) error { return nil }); err == nil {
			t.Errorf("%q is read", body)
		}
	}
}

func BenchmarkPacker(b *testing.B) {
	var p Packer
	for range 100 {
		p.Pack(text(0))
	}
	one := bytes.Repeat(text(1), 6) // as long as an answer
	packed := p.Pack(one)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(packed.Taken()), "bytes/text")
		for b.Loop() {
			p.Pack(one)
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		room := make([]byte, 0, 2*len(one))
		for b.Loop() {
			if _, err := packed.Append(room); err != nil {
				b.Fatal(err)
			}
		}
	})
}
