package pace

import (
	"slices"
	"testing"
	"time"
)

func TestTheSameSeedMovesInTheSameWay(t *testing.T) {
	draw := func(seed, n uint64) (out []time.Duration) {
		p := New(Timings{Spread: 0.5}, seed, n)
		for range 20 {
			d := p.Of(time.Second)
			if d < 750*time.Millisecond || d > 1250*time.Millisecond {
				t.Errorf("%s is not within a quarter of a second", d)
			}
			out = append(out, d)
		}
		return out
	}
	if !slices.Equal(draw(1, 7), draw(1, 7)) {
		t.Error("one seed, two ways")
	}
	if slices.Equal(draw(1, 7), draw(1, 8)) || slices.Equal(draw(1, 7), draw(2, 7)) {
		t.Error("machines or seeds move in step")
	}
	if d := New(Timings{}, 1, 1).Of(time.Second); d != time.Second {
		t.Errorf("%s without spread", d)
	}
}
