package iscsi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"testing"
	"time"
)

// The digest of RFC 7143, appendix A.4: 32 bytes of zeros.
func TestDigestOfTheStandard(t *testing.T) {
	got := binary.LittleEndian.AppendUint32(nil, crc32.Checksum(make([]byte, 32), castagnoli))
	if want := []byte{0xaa, 0x36, 0x91, 0x8a}; !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// What is written is read, with digests and without; a bit that changes on the way is found.
func TestPDUsAcrossTheWire(t *testing.T) {
	for _, d := range []digests{{}, {header: true}, {data: true}, {header: true, data: true}} {
		for _, n := range []int{0, 1, 3, 4, 1000} {
			p := &pdu{data: bytes.Repeat([]byte{7}, n)}
			p.head[0] = opDataOut
			p.set32(16, 99)
			us, them := net.Pipe()
			sent := make(chan error, 1)
			go func() { sent <- p.write(us, d); us.Close() }()
			var wire bytes.Buffer
			if _, err := wire.ReadFrom(them); err != nil || <-sent != nil {
				t.Fatal(err)
			}
			got, err := read(bytes.NewReader(wire.Bytes()), d, 2000)
			if err != nil || got.tag() != 99 || !bytes.Equal(got.data, p.data) {
				t.Errorf("%v, %d bytes: %v", d, n, err)
			}
			if _, err := read(bytes.NewReader(wire.Bytes()), d, n-1); err == nil && n > 0 {
				t.Errorf("%d bytes are taken where %d were agreed on", n, n-1)
			}
			for at, covered := range map[int]bool{20: d.header, headerSize + 4: d.data && n > 4} {
				if d.header {
					at += map[bool]int{true: 4}[at > headerSize]
				}
				if !covered {
					continue
				}
				bad := bytes.Clone(wire.Bytes())
				bad[at] ^= 1
				if _, err := read(bytes.NewReader(bad), d, 2000); !errors.Is(err, errDigest) {
					t.Errorf("%v, %d bytes: a wrong byte at %d: %v", d, n, at, err)
				}
			}
		}
	}
}

// FuzzTarget lets a target say anything: the login and a session end, nothing panics, and no command waits for ever.
func FuzzTarget(f *testing.F) {
	login := make([]byte, headerSize)
	login[0], login[1] = opLoginResp, 0x87
	f.Add(login)
	f.Add(append(append(bytes.Clone(login), login...), make([]byte, 3*headerSize)...))
	ready := make([]byte, headerSize)
	ready[0], ready[1], ready[19] = opReady, 0x80, 1
	f.Add(append(append(bytes.Clone(login), login...), ready...))
	f.Fuzz(func(t *testing.T, says []byte) {
		s := &Session{agreed: agreed{segment: 512, firstBurst: 512, maxBurst: 4096}, down: make(chan struct{}), left: make(chan struct{}), wake: make(chan struct{}, 1), tasks: map[uint32]*task{}, heard: time.Now()}
		s.conn, _ = net.Pipe()
		waiting := &task{tag: 1, in: make([]byte, 64), done: make(chan struct{})}
		sending := &task{tag: 2, out: make([]byte, 2048), done: make(chan struct{})}
		s.tasks[1], s.tasks[2] = waiting, sending
		in := bytes.NewReader(says)
		for {
			p, err := read(in, digests{}, 4096)
			if err == nil {
				err = s.take(p)
			}
			if err != nil {
				s.fail(&LostError{err})
				break
			}
		}
		<-waiting.done
		<-sending.done
		l := hostileLogin(says)
		_, _ = l.run()
	})
}
