package snmp

import (
	"strconv"
	"time"
)

// wentOff is when an outlet was told to go off by this rackd; once it was read to be off, when that was.
type wentOff struct {
	at   time.Time
	seen bool
}

// plug names an outlet among all.
func (t target) plug() string { return t.Address() + " " + strconv.Itoa(t.outlet) }

// toldOff notes that an outlet was told to go off now. Another rackd does not know it, and takes longer than Hold to take over.
func (d *Driver) toldOff(t target) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for plug, w := range d.off {
		if now.Sub(w.at) > d.opts.Hold+d.opts.PowerTimeout {
			delete(d.off, plug)
		}
	}
	d.off[t.plug()] = wentOff{at: now}
}

// held is how long an outlet that was read to be off has to stay so.
func (d *Driver) held(t target) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, lately := d.off[t.plug()]
	if !lately {
		return 0
	}
	return d.opts.Hold - time.Since(w.at)
}

// saw notes what an outlet was read to be.
func (d *Driver) saw(t target, is reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch w, lately := d.off[t.plug()]; {
	case lately && is == off && !w.seen:
		d.off[t.plug()] = wentOff{time.Now(), true}
	case lately && w.seen && is == on:
		delete(d.off, t.plug())
	}
}
