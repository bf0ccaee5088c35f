package lan

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// login15 opens a session of version 1.5 (section 13.14).
func (s *Session) login15(ctx context.Context, c capabilities) error {
	auth, err := s.choose(c)
	if err != nil {
		return err
	}
	name := make([]byte, 16)
	copy(name, s.target.Username)
	data, _, err := s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdChallenge, Data: append([]byte{uint8(auth)}, name...)}, s.opts.Tries)
	if code, refused := errors.AsType[*CodeError](err); refused && (code.Code == 0x81 || code.Code == 0x82) {
		return refuse(Name, "it does not know the user (completion code %02Xh)", code.Code)
	}
	if err != nil {
		return err
	}
	if len(data) < 20 {
		return refuse(Odd, "its challenge is too short")
	}
	g := &guard15{auth: auth, password: []byte(s.target.Password), session: binary.LittleEndian.Uint32(data)}
	s.guard = g
	request := append([]byte{uint8(auth), uint8(s.target.Privilege)}, data[4:20]...)
	request = binary.LittleEndian.AppendUint32(request, binary.LittleEndian.Uint32(crypto.RandomBytes(4))>>1|1)
	// BMCs count wrong passwords, and many are silent to them: the login is tried twice at most.
	data, _, err = s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdActivate, Data: request}, s.few())
	if err != nil {
		s.guard = bare{} // there is no session to end
		if _, silent := errors.AsType[*NoAnswerError](err); silent {
			if _, asked := s.capabilities(ctx); asked != nil { // it is silent to everything: it was reset, for instance
				return err
			}
		}
		return s.activation(err)
	}
	if len(data) < 10 {
		return refuse(Odd, "it tells too little of the session")
	}
	g.session, g.count, g.active = binary.LittleEndian.Uint32(data[1:]), max(binary.LittleEndian.Uint32(data[5:]), 1), true
	switch rest := types.AuthType(data[0] & 0x0F); {
	case rest == auth:
	case rest == types.AuthTypeNone && c.unsealed:
		g.auth = rest
	default:
		return refuse(Version, "after the login it wants another authentication than for it")
	}
	return nil
}

// choose picks the best of the authentication types. One that sends the password in the clear is not used.
func (s *Session) choose(c capabilities) (types.AuthType, error) {
	for _, auth := range []types.AuthType{types.AuthTypeMD5, types.AuthTypeMD2} {
		if c.auths&(1<<auth) != 0 {
			return auth, nil
		}
	}
	if c.auths&(1<<types.AuthTypeNone) != 0 && s.target.Password == "" {
		return types.AuthTypeNone, nil
	}
	return 0, refuse(Version, "in IPMI 1.5 it takes neither MD5 nor MD2, and the password would go in the clear")
}

// activation sorts the errors of Activate Session (section 22.17).
func (s *Session) activation(err error) error {
	if silent, is := errors.AsType[*NoAnswerError](err); is && !silent.Closed {
		return refuse(Password, "it is silent to the login, as BMCs of IPMI 1.5 are to a wrong password")
	}
	code, refused := errors.AsType[*CodeError](err)
	if !refused {
		return err
	}
	switch code.Code {
	case 0x81, 0x82, 0x83:
		return refuse(Full, "it has no session left (completion code %02Xh)", code.Code)
	case 0x86, 0xD4:
		return refuse(Level, "the user may not have the privilege %s (completion code %02Xh)", s.target.Privilege, code.Code)
	}
	return refuse(Password, "it refuses the login: %v", code)
}
