package microversion

import (
	"net/http"
	"testing"
)

func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{"1.1", "latest", "1.115", "2.0", "", "1.", ".1", "1.1.1", "1.00000000000001", "baremetal 1.4", "x 1,baremetal  latest"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, own, standard string) {
		h := http.Header{}
		h.Set(Header, own)
		h.Set(Standard, standard)
		v, err := Negotiate(h)
		if err == nil && (v < Min || v > Max) {
			t.Errorf("%q and %q gave %s", own, standard, v)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error says nothing")
		}
	})
}
