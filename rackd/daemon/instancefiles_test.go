package daemon

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// A machine whose instance boots files waits until the rack has those that the deploy was given, and loads no others.
func TestAnInstanceBootsWhatItWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here atomic.Bool
		var fails atomic.Pointer[error]
		asked := make(chan imagecache.Source, 10)
		files := &instanceFiles{tries: map[string]*try{}, log: slog.New(slog.DiscardHandler), holds: func(string) bool { return here.Load() },
			ensure: func(_ context.Context, s imagecache.Source) (imagecache.Entry, error) {
				time.Sleep(time.Second)
				asked <- s
				if err := fails.Swap(nil); err != nil {
					return imagecache.Entry{}, *err
				}
				here.Store(true)
				return imagecache.Entry{}, nil
			}}
		other := errors.New("the checksum is another")
		fails.Store(&other)
		d := directory{bring: files.bring, cached: func(id string) string {
			if !here.Load() {
				return ""
			}
			return "http://rack/images/" + id
		}}
		order := bootorder.Image(bootorder.File{URL: "http://x/i", ID: "sha256-i", Kept: true})
		machine := func() bootorder.Order {
			m, _ := d.machine(conductor.BootOrder{Node: &node.Document{}, Order: order}, true)
			return m.Order
		}
		for range 2 {
			if o := machine(); !o.Again || !strings.Contains(o.Reason, "on its way") {
				t.Errorf("at first: %+v", o)
			}
		}
		time.Sleep(2 * time.Second)
		if o := machine(); !o.Again || !strings.Contains(o.Reason, "the checksum is another") {
			t.Errorf("what lies there is another: %+v", o)
		}
		time.Sleep(bringAgain)
		machine()
		time.Sleep(2 * time.Second)
		if o := machine(); o.Image == nil || o.Image.URL != "http://rack/images/sha256-i" || order.Image.URL != "http://x/i" {
			t.Errorf("then: %+v", o)
		}
		if len(asked) != 2 {
			t.Errorf("asked for %d times", len(asked))
		}
		if s := <-asked; s != (imagecache.Source{URL: "http://x/i", HashAlgo: "sha256", HashValue: "i", Given: "sha256-i"}) {
			t.Errorf("asked for %+v", s)
		}
	})
}

// What only TFTP gives, the machine loads by itself.
func TestAnInstancesFilesByTFTP(t *testing.T) {
	d := directory{cached: func(string) string { return "" }, bring: func(bootorder.File) error { return errComing }}
	f := bootorder.File{URL: "tftp://x/k", Kept: true}
	m, _ := d.machine(conductor.BootOrder{Node: &node.Document{}, Order: bootorder.Instance(bootorder.Load{Kernel: f, Initramfs: f})}, true)
	if l := m.Order.Load; l == nil || l.Kernel.URL != "tftp://x/k" || !l.Instance {
		t.Errorf("%+v", m.Order)
	}
}
