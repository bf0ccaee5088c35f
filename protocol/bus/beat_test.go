package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestReadBeat(t *testing.T) {
	for body, want := range map[string]Beat{
		"":                              {},
		"i":                             {Instance: "i"}, // of before editions
		"i lost":                        {Instance: "i", Lost: true},
		"i 3":                           {Instance: "i", Edition: 3},
		"i gone:rack1.b":                {Instance: "i", Gone: "rack1.b"},
		"i 3 lost gone:rack1.b":         {Instance: "i", Edition: 3, Lost: true, Gone: "rack1.b"},
		"i later 99999999999999999999 ": {Instance: "i"},
	} {
		want.Key = "g.r"
		if got := readBeat(&nats.Msg{Subject: BeatSubject("g", "r"), Data: []byte(body)}); got != want {
			t.Errorf("%q is read as %+v, want %+v", body, got, want)
		}
	}
}
