package ipmi

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ironyard/ironyard/rackd/driver"
)

// An iRMC answers as python-scciclient's tests have it: the numbers begin at the seventh byte, the lower byte first.
func TestPCIDevicesOfAnIRMC(t *testing.T) {
	first := []byte{0x80, 0x28, 0, 0, 0, 5, 0xDE, 0x10, 0xB8, 0x1E, 0x34, 0x17, 0x76, 0x11, 0, 4, 1}
	second := []byte{0x80, 0x28, 0, 0, 0, 5, 0x86, 0x80, 0xC4, 0x09, 0x34, 0x17, 0x76, 0x11, 0, 4, 1}
	both := []driver.PCIDevice{{Vendor: 0x10de, Product: 0x1eb8}, {Vendor: 0x8086, Product: 0x09c4}}
	for name, c := range map[string]struct {
		answers [][]byte
		after   types.CompletionCode
		want    []driver.PCIDevice
		fails   string
	}{
		"two":               {[][]byte{first, second}, outOfRange, both, ""},
		"none":              {nil, outOfRange, nil, ""},
		"another maker's":   {nil, 0xC1, nil, "Invalid command"},
		"half an answer":    {[][]byte{first, second[:9]}, outOfRange, nil, "its firmware is at fault"},
		"of another number": {[][]byte{append([]byte{0x57, 1, 0}, first[3:]...)}, outOfRange, nil, "its firmware is at fault"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "s3cret-pass")
			r.set(func() {
				r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
					if q.NetFn != netFnFujitsu || q.Command != cmdFujitsu {
						return nil, 0, false
					}
					if ask := fmt.Sprintf("%x", q.Data); ask[:8]+ask[10:] != "8028001a00" {
						t.Errorf("asked with %s", ask)
					}
					if i := int(q.Data[4]); i <= len(c.answers) {
						return c.answers[i-1], 0, true
					}
					return nil, c.after, true
				}
			})
			got, err := newDriver(t, Options{}).PCIDevices(t.Context(), r.node("s3cret-pass", nil))
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v, want %q", err, c.fails)
			}
			if name == "another maker's" && !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("%v, want %v", err, driver.ErrUnsupported)
			}
			if err == nil && !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// A BMC that lists without an end is asked for no more than the command can name.
func TestPCIDevicesWithoutAnEnd(t *testing.T) {
	r := newRig(t, "s3cret-pass")
	r.set(func() {
		r.answer = func(q request) ([]byte, types.CompletionCode, bool) {
			return []byte{0x80, 0x28, 0, 0, 0, 5, 1, 0, 2, 0}, 0, q.NetFn == netFnFujitsu
		}
	})
	if list, err := newDriver(t, Options{}).PCIDevices(t.Context(), r.node("s3cret-pass", nil)); err != nil || len(list) != mostDevices {
		t.Errorf("%d devices, %v", len(list), err)
	}
}
