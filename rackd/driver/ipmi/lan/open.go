package lan

import (
	"context"
	"errors"
	"slices"
	"time"
)

// capabilities is what a BMC says of its logins before one (section 22.13).
type capabilities struct {
	auths uint8 // a bit for each authentication type of version 1.5
	// unsealed: in a session of version 1.5, messages after the login carry no authentication code.
	unsealed bool
	// key: the BMC has a key Kg. extended: it tells of versions, and version20 whether it speaks 2.0.
	key, extended, version20 bool
}

// Open logs in. Errors are a *LoginError, a *NoAnswerError, a *CodeError, or those of dialling and of ctx.
func Open(ctx context.Context, t Target, o Options) (*Session, error) {
	o = o.filled()
	conn, err := o.Dial(ctx, t.Address)
	if err != nil {
		return nil, err
	}
	s := &Session{target: t, opts: o, conn: conn, guard: bare{}, buf: make([]byte, largest)}
	if err := s.login(ctx); err != nil {
		s.Close(ctx)
		return nil, err
	}
	s.watch()
	return s, nil
}

func (s *Session) login(ctx context.Context) error {
	c, err := s.capabilities(ctx)
	if err != nil {
		return err
	}
	if s.target.Old {
		err = s.login15(ctx, c)
	} else {
		err = s.login20(ctx, c)
	}
	if err != nil {
		return err
	}
	return s.raise(ctx)
}

// presentChannel is the one that the request came by.
const presentChannel = 0x0E

func (s *Session) capabilities(ctx context.Context) (c capabilities, err error) {
	const extended = 0x80
	ask := func(channel uint8) ([]byte, error) {
		data, _, err := s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdCapabilities, Data: []byte{channel, uint8(s.target.Privilege)}}, s.opts.Tries)
		return data, err
	}
	data, err := ask(presentChannel | extended)
	if _, refused := errors.AsType[*CodeError](err); refused { // a BMC from before version 2.0
		data, err = ask(presentChannel)
	}
	if err != nil {
		return c, err
	}
	if len(data) < 3 {
		return c, refuse(Odd, "it tells too little of its logins")
	}
	c = capabilities{auths: data[1] & 0x3F, unsealed: data[2]&0x10 != 0, key: data[2]&0x20 != 0, extended: data[1]&0x80 != 0}
	if c.extended && len(data) >= 4 {
		c.version20 = data[3]&0x02 != 0
	}
	if !s.target.Old && !c.version20 {
		return c, refuse(Version, "it does not speak IPMI 2.0")
	}
	return c, nil
}

// raise asks for the privilege: a session begins with that of a user (section 22.18).
func (s *Session) raise(ctx context.Context) error {
	if s.target.Privilege <= User {
		return nil
	}
	_, _, err := s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdPrivilege, Data: []byte{uint8(s.target.Privilege)}}, s.opts.Tries)
	if code, refused := errors.AsType[*CodeError](err); refused && slices.Contains([]uint8{0x80, 0x81, 0xD4}, code.Code) {
		return refuse(Level, "the user may not have the privilege %s (completion code %02Xh)", s.target.Privilege, code.Code)
	}
	return err
}

// String is the privilege's name, as driver_info has it.
func (p Privilege) String() string {
	switch p {
	case Callback:
		return "CALLBACK"
	case User:
		return "USER"
	case Operator:
		return "OPERATOR"
	}
	return "ADMINISTRATOR"
}

// few are the first tries, for a request that a BMC may be silent to although it is there.
func (s *Session) few() []time.Duration { return s.opts.Tries[:min(2, len(s.opts.Tries))] }
