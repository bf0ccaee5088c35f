package enrol

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/ironyard/ironyard/central/store"
)

// A renewal must answer a challenge that central made for it. The challenge is bound to the
// member's newest certificate, which each renewal replaces: so it counts once, at whichever
// replica, and none is kept. Its time is central's own. The member's clock plays no part.

// challengeLife is how long a challenge can be answered. Clocks of replicas may differ by
// clockSkew besides.
const challengeLife = 5 * time.Minute

// newChallengeKey derives the key of challenges, which all replicas share.
func (a *Authority) newChallengeKey() ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(a.fleet.Key), nil, "ironyard renewal challenge", sha256.Size)
}

// challenge returns what a member must sign to replace its newest certificate.
func (a *Authority) challenge(m *store.Member, at time.Time) string {
	stamp := binary.BigEndian.AppendUint64(nil, uint64(at.Unix()))
	mac := hmac.New(sha256.New, a.challengeKey)
	mac.Write(stamp)
	mac.Write([]byte(m.ID + "\x00" + m.Certificate))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(stamp))
}

// answers reports whether text is a challenge of m as m is now.
func (a *Authority) answers(text string, m *store.Member) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != 8+sha256.Size {
		return false
	}
	made := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)
	if age := a.now().Sub(made); age < -clockSkew || age > challengeLife+clockSkew {
		return false
	}
	return hmac.Equal([]byte(text), []byte(a.challenge(m, made)))
}

// ask refuses a renewal that answers no challenge of now, with one to answer.
func (a *Authority) ask(m *store.Member) error {
	return &refusal{status: http.StatusUnauthorized, challenge: a.challenge(m, a.now()),
		text: "a renewal answers a challenge of central's, and this one does not: upgrade the member's program to central's version, " +
			"or set the clocks of central's replicas, which must not differ by more than " + clockSkew.String()}
}
