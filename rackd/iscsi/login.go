package iscsi

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Stages of a login.
const (
	security    = 0
	operational = 1
	fullFeature = 3
)

// What we offer, and the defaults of RFC 7143, 13.
const (
	maxSegment     = 256 << 10 // of a PDU that we receive
	maxBurst       = 1 << 20
	firstBurst     = 256 << 10
	defaultSegment = 8 << 10
	// maxText bounds the keys that a target sends in one stage.
	maxText = 64 << 10
	// maxRounds bounds the requests of one login.
	maxRounds = 16
)

// agreed are the values that a login ends with.
type agreed struct {
	digests
	// segment is the largest data segment that the target takes.
	segment int
	// firstBurst is how much of a write may go with its command; 0: nothing.
	firstBurst int
	maxBurst   int
}

// login is one login while it runs.
type login struct {
	conn      net.Conn
	in        *bufio.Reader
	target    Target
	isid      [6]byte
	stage     byte
	tsih      uint16
	cmdSN     uint32
	expStatSN uint32
	maxCmdSN  uint32
}

// LoginError says that a target refuses a login.
type LoginError struct{ Class, Detail byte }

// Error names the status of RFC 7143, 11.13.5.
func (e *LoginError) Error() string {
	what := map[[2]byte]string{
		{1, 1}: "the target has moved for a while", {1, 2}: "the target has moved", {2, 0}: "initiator error", {2, 1}: "authentication failure",
		{2, 2}: "not authorized", {2, 3}: "target not found", {2, 4}: "target removed", {2, 5}: "unsupported version", {2, 6}: "too many connections",
		{2, 7}: "missing parameter", {2, 11}: "invalid during login", {3, 0}: "target error", {3, 1}: "service unavailable", {3, 2}: "out of resources",
	}[[2]byte{e.Class, e.Detail}]
	if what == "" {
		what = "unknown status"
	}
	return fmt.Sprintf("the target refuses the login: %s (class %d, detail %d)", what, e.Class, e.Detail)
}

// Is makes errors.Is find ErrDenied.
func (e *LoginError) Is(target error) bool {
	return target == ErrDenied && e.Class == 2 && (e.Detail == 1 || e.Detail == 2)
}

// run logs in and returns what was agreed on.
func (l *login) run() (agreed, error) {
	rand.Read(l.isid[:])
	l.isid[0] = l.isid[0]&0x3f | 0x80 // random (RFC 7143, 11.12.5)
	auth := "None"
	if l.target.CHAP.User != "" {
		auth = "CHAP"
	}
	first := []string{"InitiatorName=" + l.target.Initiator, "SessionType=Normal", "TargetName=" + l.target.IQN, "AuthMethod=" + auth}
	keys, moved, err := l.ask(first, auth == "None")
	if err != nil {
		return agreed{}, err
	}
	if auth == "CHAP" {
		if moved, err = l.prove(keys); err != nil {
			return agreed{}, err
		}
	}
	for n := 0; !moved; n++ {
		if n == maxRounds {
			return agreed{}, errors.New("the target does not leave the security stage of the login")
		}
		if _, moved, err = l.ask(nil, true); err != nil {
			return agreed{}, err
		}
	}
	l.stage = operational
	return l.negotiate()
}

// prove runs CHAP. moved: the target goes on to the next stage.
func (l *login) prove(keys map[string]string) (moved bool, err error) {
	if keys["AuthMethod"] != "CHAP" {
		return false, fmt.Errorf("%w: the target wants authentication by %.20q, not by CHAP", ErrDenied, keys["AuthMethod"])
	}
	if keys, _, err = l.ask([]string{"CHAP_A=" + algorithm}, false); err != nil {
		return false, err
	}
	x := exchange{chap: l.target.CHAP}
	answer, err := x.answer(keys)
	if err != nil {
		return false, err
	}
	if keys, moved, err = l.ask(answer, true); err != nil {
		return false, err
	}
	return moved, x.check(keys)
}

// negotiate agrees on how data travels.
func (l *login) negotiate() (agreed, error) {
	keys, moved, err := l.ask([]string{
		"HeaderDigest=CRC32C,None", "DataDigest=CRC32C,None", "ErrorRecoveryLevel=0", "MaxConnections=1", "InitialR2T=No", "ImmediateData=Yes",
		"MaxRecvDataSegmentLength=" + strconv.Itoa(maxSegment), "MaxBurstLength=" + strconv.Itoa(maxBurst), "FirstBurstLength=" + strconv.Itoa(firstBurst),
		"MaxOutstandingR2T=1", "DataPDUInOrder=Yes", "DataSequenceInOrder=Yes", "DefaultTime2Wait=0", "DefaultTime2Retain=0",
	}, true)
	if err != nil {
		return agreed{}, err
	}
	for n := 0; !moved; n++ {
		if n == maxRounds {
			return agreed{}, errors.New("the target does not end the login")
		}
		// What the target asks for by itself is accepted where it is what we do anyway.
		var more map[string]string
		if more, moved, err = l.ask(replies(keys), true); err != nil {
			return agreed{}, err
		}
		for k, v := range more {
			keys[k] = v
		}
	}
	return settle(keys)
}

// ours are the keys that we have offered; a target's value for them is its answer.
var ours = map[string]bool{"HeaderDigest": true, "DataDigest": true, "ErrorRecoveryLevel": true, "MaxConnections": true, "InitialR2T": true, "ImmediateData": true,
	"MaxRecvDataSegmentLength": true, "MaxBurstLength": true, "FirstBurstLength": true, "MaxOutstandingR2T": true, "DataPDUInOrder": true,
	"DataSequenceInOrder": true, "DefaultTime2Wait": true, "DefaultTime2Retain": true, "TargetAlias": true, "TargetPortalGroupTag": true, "TargetAddress": true}

// replies answers the keys that a target asks about by itself.
func replies(keys map[string]string) (out []string) {
	for k := range keys {
		if !ours[k] {
			out = append(out, k+"=NotUnderstood")
		}
	}
	return out
}

// settle reads what a target has answered.
func settle(keys map[string]string) (agreed, error) {
	a := agreed{segment: defaultSegment, firstBurst: firstBurst, maxBurst: maxBurst}
	number := func(key string, into *int, most int) error {
		text, there := keys[key]
		if !there {
			return nil
		}
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil || n < 512 {
			return fmt.Errorf("the target's %s is %.20q", key, text)
		}
		*into = int(min(n, uint64(most)))
		return nil
	}
	if err := errors.Join(number("MaxRecvDataSegmentLength", &a.segment, 1<<20), number("FirstBurstLength", &a.firstBurst, firstBurst), number("MaxBurstLength", &a.maxBurst, maxBurst)); err != nil {
		return a, err
	}
	if keys["ImmediateData"] == "No" {
		a.firstBurst = 0
	}
	a.header, a.data = keys["HeaderDigest"] == "CRC32C", keys["DataDigest"] == "CRC32C"
	return a, nil
}

// ask sends keys and returns the target's. on: we are ready for the next stage; moved: so is the target.
func (l *login) ask(keys []string, on bool) (got map[string]string, moved bool, err error) {
	var text []byte
	for _, k := range keys {
		text = append(append(text, k...), 0)
	}
	var answer []byte
	for range maxRounds {
		p, err := l.round(text, on)
		if err != nil {
			return nil, false, err
		}
		if answer = append(answer, p.data...); len(answer) > maxText {
			return nil, false, fmt.Errorf("the target sends more than %d bytes of keys", maxText)
		}
		if p.head[1]&0x40 == 0 { // no more to come
			return parseKeys(answer), p.head[1]&0x80 != 0, nil
		}
		text, on = nil, false
	}
	return nil, false, errors.New("the target's keys do not end")
}

func (l *login) round(text []byte, on bool) (*pdu, error) {
	q := &pdu{data: text}
	q.head[0] = opLogin | immediate
	q.head[1] = l.stage << 2
	if on {
		next := byte(operational)
		if l.stage == operational {
			next = fullFeature
		}
		q.head[1] |= 0x80 | next
	}
	copy(q.head[8:], l.isid[:])
	q.head[14], q.head[15] = byte(l.tsih>>8), byte(l.tsih)
	q.set32(24, l.cmdSN)
	q.set32(28, l.expStatSN)
	if err := q.write(l.conn, digests{}); err != nil {
		return nil, err
	}
	p, err := read(l.in, digests{}, maxText)
	if err != nil {
		return nil, err
	}
	if p.op() != opLoginResp || p.tag() != 0 {
		return nil, fmt.Errorf("the target answers a login with a PDU of type %#x", p.op())
	}
	if p.head[36] != 0 {
		return nil, &LoginError{p.head[36], p.head[37]}
	}
	l.tsih = uint16(p.head[14])<<8 | uint16(p.head[15])
	l.expStatSN, l.maxCmdSN = p.u32(24)+1, p.u32(32)
	return p, nil
}

func parseKeys(text []byte) map[string]string {
	keys := map[string]string{}
	for _, pair := range bytes.Split(text, []byte{0}) {
		if k, v, ok := strings.Cut(string(pair), "="); ok {
			keys[k] = v
		}
	}
	return keys
}
