package lan

import "slices"

// tracked asks the BMC to remember a request that it passes on, and to return the answer (section 22.7).
const tracked = 0x40

// wrap puts a request into the commands that pass it on to the target.
func (b *Bridge) wrap(seq uint8, r Request) Request {
	inner := packMessage(b.TargetAddress, b.Local, seq, r)
	r = sendMessage(b.TargetChannel, inner)
	if b.Dual {
		r = sendMessage(b.TransitChannel, packMessage(b.TransitAddress, b.Local, seq, r))
	}
	return r
}

func sendMessage(channel uint8, message []byte) Request {
	return Request{NetFn: netFnApp, Command: cmdSendMessage, Data: append([]byte{channel&0x0F | tracked}, message...)}
}

// unwrap returns the target's answer to r out of what the BMC sent. BMCs return it within the answer to Send Message, or as a
// message of its own, which follows an empty answer to Send Message. failed is a controller on the way that could not pass it on.
func unwrap(a answer, r Request, seqs []uint8) (found answer, failed error, ok bool) {
	for range 3 {
		if a.netFn != netFnApp|1 || a.command != cmdSendMessage {
			return a, nil, true
		}
		if a.code != 0 {
			return a, &CodeError{Code: a.code, Request: r, Bridged: true}, false
		}
		inner, there := parseAnswer(a.data)
		if !there || !inner.whole {
			return a, nil, false // the answer follows
		}
		if !slices.Contains(seqs, inner.seq) {
			return a, nil, false
		}
		a = inner
	}
	return a, nil, false
}
