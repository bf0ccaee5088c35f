package lan

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/types"
)

// login15 opens a session of version 1.5 (section 13.14). BMCs count wrong passwords, and many are silent to them: the password is tried
// twice at most. A BMC that has restarted is silent as well, since its challenge is forgotten. So the second try asks for another.
func (s *Session) login15(ctx context.Context, c capabilities) error {
	auth, err := s.choose(c)
	if err != nil {
		return err
	}
	var data []byte
	for try := 1; ; try++ {
		request, err := s.challenge(ctx, auth)
		if err != nil {
			return err
		}
		data, err = s.begin(ctx, request)
		if err == nil {
			break
		}
		s.guard = bare{} // there is no session to end
		if forgotten(err) && try == 1 && ctx.Err() == nil {
			continue
		}
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
	g := s.guard.(*guard15)
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

// challenge asks for a challenge and returns what answers it. The guard then is that of the session to come.
func (s *Session) challenge(ctx context.Context, auth types.AuthType) (request []byte, err error) {
	name := make([]byte, 16)
	copy(name, s.target.Username)
	data, _, err := s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdChallenge, Data: append([]byte{uint8(auth)}, name...)}, s.opts.Tries)
	if code, refused := errors.AsType[*CodeError](err); refused && (code.Code == 0x81 || code.Code == 0x82) {
		return nil, refuse(Name, "it does not know the user (completion code %02Xh)", code.Code)
	}
	if err != nil {
		return nil, err
	}
	if len(data) < 20 {
		return nil, refuse(Odd, "its challenge is too short")
	}
	s.guard = &guard15{auth: auth, password: []byte(s.target.Password), session: binary.LittleEndian.Uint32(data)}
	request = append([]byte{uint8(auth), uint8(s.target.Privilege)}, data[4:20]...)
	return binary.LittleEndian.AppendUint32(request, binary.LittleEndian.Uint32(crypto.RandomBytes(4))>>1|1), nil
}

// begin asks for the session, once. It waits as long as two tries do: a session whose answer came too late would stay open at the BMC.
func (s *Session) begin(ctx context.Context, request []byte) ([]byte, error) {
	var patience time.Duration
	for _, wait := range s.few() {
		patience += wait
	}
	data, _, err := s.exchange(ctx, Request{NetFn: netFnApp, Command: cmdActivate, Data: request}, []time.Duration{patience})
	return data, err
}

// Completion codes of Activate Session by which a BMC says that it does not know the session of that challenge (section 22.17).
const (
	codeSequence = 0x84
	codeSession  = 0x85
)

// forgotten reports whether a BMC that refuses the login with err may have forgotten its challenge.
func forgotten(err error) bool {
	if silent, is := errors.AsType[*NoAnswerError](err); is {
		return !silent.Closed
	}
	code, refused := errors.AsType[*CodeError](err)
	return refused && (code.Code == codeSequence || code.Code == codeSession)
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
	case codeSequence, codeSession:
		return refuse(Odd, "it does not know the session that it has just offered: %v", code)
	case 0x86, 0xD4:
		return refuse(Level, "the user may not have the privilege %s (completion code %02Xh)", s.target.Privilege, code.Code)
	}
	return refuse(Password, "it refuses the login: %v", code)
}
