package lan

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"
)

// login20 opens a session of version 2.0 (section 13.15) with the first of the cipher suites that the BMC takes.
func (s *Session) login20(ctx context.Context, c capabilities) error {
	var refused []string
	for i, suite := range s.target.Suites {
		last := i == len(s.target.Suites)-1
		tries := s.opts.Tries
		if !last {
			tries = s.few()
		}
		g, offer, err := s.offer(ctx, suite, tries)
		if _, silent := errors.AsType[*NoAnswerError](err); silent && !last && ctx.Err() == nil {
			continue
		}
		if e, is := errors.AsType[*LoginError](err); is && e.Why == Suite {
			refused = append(refused, e.Said)
			continue
		}
		if err != nil {
			return err
		}
		if err = s.keys(ctx, g, offer, c, s.opts.Tries); s.mixedUp(err) {
			// Each message leaves once: the BMC has no two of a kind to answer.
			once := []time.Duration{s.opts.wait()}
			if g, offer, err = s.offer(ctx, suite, once); err == nil {
				err = s.keys(ctx, g, offer, c, once)
			}
		}
		if err != nil {
			return err
		}
		s.guard, s.suite = g, suite
		return nil
	}
	return refuse(Suite, "%s", strings.Join(refused, ", "))
}

// mixedUp reports whether a login that ended with err may have failed because one of its messages was repeated. A slow BMC makes a new
// number for a repetition, which the proof of the password does not fit; another is silent to one, or does not know the session.
func (s *Session) mixedUp(err error) bool {
	if !s.repeated {
		return false
	}
	if silent, is := errors.AsType[*NoAnswerError](err); is {
		return s.proved && !silent.Closed
	}
	refused, is := errors.AsType[*LoginError](err)
	return is && (refused.Why == Password || refused.Why == Name || refused.Why == Odd)
}

// usable are the cipher suites whose messages cannot be forged, as far as is known of their algorithms.
var usable = map[uint8]bool{2: true, 3: true, 16: true, 17: true}

// Usable reports whether a session can be opened with a cipher suite, and if not, why.
func Usable(suite int) (ok bool, why string) {
	switch {
	case suite >= 0 && suite <= 255 && usable[uint8(suite)]:
		return true, ""
	case suite == 0:
		return false, "it lets everyone in"
	case suite == 1 || suite == 6 || suite == 15:
		return false, "its messages could be forged"
	case suite == 7 || suite == 8 || suite == 11 || suite == 12:
		return false, "it rests on MD5"
	case suite > 0 && suite < 20:
		return false, "it encrypts by RC4"
	}
	return false, "there is no such suite"
}

// offer proposes a cipher suite (section 13.17).
func (s *Session) offer(ctx context.Context, suite uint8, tries []time.Duration) (*guard20, *rmcpplus.OpenSessionResponse, error) {
	auth, integrity, crypt, known := types.GetCipherSuiteAlgorithms(types.CipherSuiteID(suite))
	if ok, why := Usable(int(suite)); !ok || !known {
		return nil, nil, refuse(Suite, "cipher suite %d is not used: %s", suite, why)
	}
	g := &guard20{integrity: integrity, crypt: crypt, password: s.target.Password}
	g.authenticator, _ = crypto.IntegrityAuthCodeLen(integrity)
	g.console = binary.LittleEndian.Uint32(crypto.RandomBytes(4)) | 1 // 0 is no session
	s.repeated = false
	request := &rmcpplus.OpenSessionRequest{RemoteConsoleSessionID: g.console}
	request.AuthenticationPayload, request.IntegrityPayload, request.ConfidentialityPayload = rmcpplus.NewAlgorithmPayloads(auth, integrity, crypt)
	var got rmcpplus.OpenSessionResponse
	status, err := s.setup(ctx, payloadOpen, payloadOpenResponse, tries, func(tag uint8) []byte {
		request.MessageTag = tag
		return request.Pack()
	}, func(payload []byte) bool {
		return got.Unpack(payload) == nil && got.RemoteConsoleSessionID == g.console
	})
	if err != nil {
		return nil, nil, err
	}
	if status != 0 {
		return nil, nil, s.status(status, suite)
	}
	if types.AuthAlg(got.AuthAlg) != auth || types.IntegrityAlg(got.IntegrityAlg) != integrity || types.CryptAlg(got.CryptAlg) != crypt {
		return nil, nil, refuse(Suite, "it answers cipher suite %d with other algorithms", suite)
	}
	g.bmc = got.ManagedSystemSessionID
	return g, &got, nil
}

// byNameOnly has the BMC look the user up by its name, whatever its privilege (section 13.20).
const byNameOnly = 0x10

// keys proves to each side that the other knows the password, and derives the session's keys (sections 13.20 to 13.32).
func (s *Session) keys(ctx context.Context, g *guard20, offer *rmcpplus.OpenSessionResponse, c capabilities, tries []time.Duration) error {
	s.proved = false
	t := s.target
	auth, kuid := types.AuthAlg(offer.AuthAlg), crypto.PadPassword20([]byte(t.Password))
	role := uint8(t.Privilege) | byNameOnly
	first := &rmcpplus.RAKPMessage1{ManagedSystemSessionID: g.bmc, NameOnlyLookup: true, RequestedMaximumPrivilegeLevel: types.PrivilegeLevel(t.Privilege),
		UsernameLength: uint8(len(t.Username)), Username: []byte(t.Username)}
	copy(first.RemoteConsoleRandomNumber[:], crypto.RandomBytes(16))
	second := rmcpplus.RAKPMessage2{AuthAlg: auth}
	status, err := s.setup(ctx, payloadRAKP1, payloadRAKP2, tries, func(tag uint8) []byte {
		first.MessageTag = tag
		return first.Pack()
	}, func(payload []byte) bool {
		return second.Unpack(payload) == nil && second.RemoteConsoleSessionID == g.console
	})
	if err != nil {
		return err
	}
	if status != 0 {
		return s.status(status, 0)
	}
	expected, err := crypto.RAKP2AuthCode(auth, g.console, g.bmc, first.RemoteConsoleRandomNumber[:], second.ManagedSystemRandomNumber[:], second.ManagedSystemGUID[:], role, t.Username, kuid)
	if err != nil {
		return err
	}
	if expected, err = crypto.TruncateRAKP2AuthCode(auth, expected); err != nil {
		return err
	}
	third := &rmcpplus.RAKPMessage3{ManagedSystemSessionID: g.bmc}
	if !crypto.Equal(expected, second.KeyExchangeAuthenticationCode) {
		third.RmcpStatusCode = types.RmcpStatusCodeInvalidIntegrityCheckValue
		_, _ = s.conn.Write(packSetup(payloadRAKP3, third.Pack())) // so that the BMC frees the slot
		return refuse(Password, "the password is not the one that the BMC has for this user")
	}
	kg := kuid
	if t.Key != nil {
		kg = crypto.PadPassword20(t.Key)
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(auth, first.RemoteConsoleRandomNumber[:], second.ManagedSystemRandomNumber[:], role, t.Username, kg)
	if err != nil {
		return err
	}
	g.k1, g.k2 = k1, k2
	if third.KeyExchangeAuthenticationCode, err = crypto.RAKP3AuthCode(auth, second.ManagedSystemRandomNumber[:], g.console, role, t.Username, kuid); err != nil {
		return err
	}
	fourth := rmcpplus.RAKPMessage4{AuthAlg: auth}
	s.proved = true
	status, err = s.setup(ctx, payloadRAKP3, payloadRAKP4, tries[:min(len(tries), 2)], func(tag uint8) []byte {
		third.MessageTag = tag
		return third.Pack()
	}, func(payload []byte) bool {
		return fourth.Unpack(payload) == nil && fourth.MgmtConsoleSessionID == g.console
	})
	if err != nil {
		return err
	}
	if status != 0 {
		return s.status(status, 0)
	}
	proof, err := crypto.RAKP4ICV(auth, first.RemoteConsoleRandomNumber[:], g.bmc, second.ManagedSystemGUID[:], sik)
	if err != nil {
		return err
	}
	if !crypto.Equal(proof, fourth.IntegrityCheckValue) {
		if c.key && t.Key == nil {
			return refuse(Key, "user and password are right, and it has a key (Kg) that the node does not name")
		}
		return refuse(Key, "user and password are right, and its key (Kg) is another one")
	}
	return nil
}

// setup sends a message of the login until its answer is there. Each try has a tag of its own, which the answer repeats. take
// reads an answer of status 0; of the others some BMCs send the two first bytes only.
func (s *Session) setup(ctx context.Context, send, want uint8, tries []time.Duration, pack func(tag uint8) []byte, take func(payload []byte) bool) (status types.RmcpStatusCode, err error) {
	tags, closed, left := map[uint8]bool{}, false, false
	read := func(b []byte) bool {
		payload, ok := parseSetup(b, want)
		if !ok || len(payload) < 2 || !tags[payload[0]] {
			return false
		}
		status = types.RmcpStatusCode(payload[1])
		return status != 0 || take(payload)
	}
	for try, wait := range tries {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		s.repeated = s.repeated || try > 0
		tag := s.next()
		tags[tag] = true
		switch err := s.round(ctx, packSetup(send, pack(tag)), wait, read, &left); {
		case err == nil:
			return status, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			closed = true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
	}
	return 0, &NoAnswerError{Datagrams: len(tries), Closed: closed}
}

// status sorts the status of a login that the BMC refuses (section 13.24).
func (s *Session) status(code types.RmcpStatusCode, suite uint8) error {
	said := strings.ToLower(code.String())
	switch code {
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		return refuse(Full, "it has no session left: %s", said)
	case types.RmcpStatusCodeUnauthorizedName, types.RmcpStatusCodeInvalidNameLength, types.RmcpStatusCodeUnauthorizedGUID:
		return refuse(Name, "it does not know the user: %s", said)
	case types.RmcpStatusCodeInvalidIntegrityCheckValue:
		return refuse(Password, "the password is not the one that the BMC has for this user: %s", said)
	case types.RmcpStatusCodeUnauthorizedRoleOfPriLevel:
		return refuse(Level, "the user may not have the privilege %s: %s", s.target.Privilege, said)
	case types.RmcpStatusCodeInvalidRole:
		if suite == 0 {
			return refuse(Level, "the user may not have the privilege %s: %s", s.target.Privilege, said)
		}
		fallthrough
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg, types.RmcpStatusCodeNoMatchingAuthPayload,
		types.RmcpStatusCodeNoMatchingIntegrityPayload, types.RmcpStatusCodeInvalidConfidentAlg, types.RmcpStatusCodeNoCipherSuiteMatch:
		return refuse(Suite, "it refuses cipher suite %d (%s)", suite, said)
	}
	return refuse(Odd, "it refuses the login: %s (%02Xh)", said, uint8(code))
}
