package iscsi

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// CHAP are the names and secrets of both sides (RFC 1994; RFC 7143, 12.1.3).
type CHAP struct {
	// User and Secret are ours.
	User, Secret string
	// TargetUser and TargetSecret are the target's; both are empty where it need not prove itself.
	TargetUser, TargetSecret string
}

// algorithm is the number of CHAP with MD5, the only one that each target must know. tgtd 1.0.85 stumbles over an offer of SHA-256.
// What MD5 lacks matters little here: a secret is random, has 128 bits, and is used for one session.
const algorithm = "5"

// respond is the answer to a challenge.
func respond(id byte, secret string, challenge []byte) []byte {
	h := md5.New()
	h.Write([]byte{id})
	h.Write([]byte(secret))
	h.Write(challenge)
	return h.Sum(nil)
}

// ErrDenied says that the target refuses the credentials, or does not prove its own.
var ErrDenied = errors.New("refused by CHAP")

// decode reads a binary value of a text key: hex or base64.
func decode(text string) ([]byte, error) {
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		if len(rest)%2 == 1 {
			rest = "0" + rest
		}
		return hex.DecodeString(rest)
	}
	if strings.HasPrefix(strings.ToLower(text), "0b") {
		return base64.StdEncoding.DecodeString(text[2:])
	}
	return nil, fmt.Errorf("%.20q is neither hex nor base64", text)
}

// exchange is one run of CHAP.
type exchange struct {
	chap      CHAP
	id        byte
	challenge []byte // ours, to the target
}

// answer makes our response to the target's challenge, with a challenge of our own where the target has to prove itself.
func (x *exchange) answer(keys map[string]string) ([]string, error) {
	if keys["CHAP_A"] != algorithm {
		return nil, fmt.Errorf("the target chose CHAP algorithm %.20q, and was offered %s", keys["CHAP_A"], algorithm)
	}
	id, err := strconv.ParseUint(keys["CHAP_I"], 0, 8)
	if err != nil {
		return nil, fmt.Errorf("the target's CHAP_I %.20q is no byte", keys["CHAP_I"])
	}
	challenge, err := decode(keys["CHAP_C"])
	if err != nil || len(challenge) == 0 || len(challenge) > 1024 {
		return nil, errors.New("the target's CHAP_C cannot be used as a challenge")
	}
	out := []string{"CHAP_N=" + x.chap.User, "CHAP_R=0x" + hex.EncodeToString(respond(byte(id), x.chap.Secret, challenge))}
	if x.chap.TargetSecret == "" {
		return out, nil
	}
	x.challenge = make([]byte, 17)
	rand.Read(x.challenge)
	x.id, x.challenge = x.challenge[0], x.challenge[1:]
	return append(out, "CHAP_I="+strconv.Itoa(int(x.id)), "CHAP_C=0x"+hex.EncodeToString(x.challenge)), nil
}

// check looks at the target's response to our challenge.
func (x *exchange) check(keys map[string]string) error {
	if x.challenge == nil {
		return nil
	}
	got, err := decode(keys["CHAP_R"])
	want := respond(x.id, x.chap.TargetSecret, x.challenge)
	if err != nil || keys["CHAP_N"] != x.chap.TargetUser || subtle.ConstantTimeCompare(got, want) != 1 {
		return fmt.Errorf("%w: the target does not prove its own secret, so it is another target", ErrDenied)
	}
	return nil
}
