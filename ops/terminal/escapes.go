package terminal

// action is what a piece of input means.
type action struct {
	typed          []byte
	brk, help, end bool
}

// escapes finds the escapes in what is typed: a tilde that begins a line, and a letter. ssh and ipmitool have the same.
type escapes struct {
	fresh bool // a line begins
	tilde bool // one has been typed there
}

// take returns what input means, in order.
func (e *escapes) take(input []byte) (list []action) {
	var plain []byte
	flush := func() {
		if len(plain) > 0 {
			list = append(list, action{typed: plain})
			plain = nil
		}
	}
	for _, b := range input {
		if e.tilde {
			e.tilde, e.fresh = false, false
			switch b {
			case '.':
				flush()
				return append(list, action{end: true})
			case 'B':
				flush()
				list, e.fresh = append(list, action{brk: true}), true
				continue
			case '?':
				flush()
				list, e.fresh = append(list, action{help: true}), true
				continue
			case '~':
				plain = append(plain, '~')
				continue
			}
			plain = append(plain, '~')
		} else if b == '~' && e.fresh {
			e.tilde = true
			continue
		}
		plain = append(plain, b)
		e.fresh = b == '\r' || b == '\n'
	}
	flush()
	return list
}
