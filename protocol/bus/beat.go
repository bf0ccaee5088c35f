package bus

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// BeatEvery is how often a rackd's lease renewals are followed by a beat. Renewals
// stay inside the site: following ALIVE across a WAN costs each renewal's header, or
// body, for each replica of central. A beat is some 80 bytes, and crosses the link
// once for all replicas. It is a hint, never proof: whoever hears one, or misses
// one, looks at ALIVE.
const BeatEvery = 3 * LeaseRenew

// beatRoot is the first token of the subjects that beats are published to, outside
// any stream.
const beatRoot = "BEAT."

// BeatSubject is where a rackd's beats are published.
func BeatSubject(group, rackd string) string { return beatRoot + MemberKey(group, rackd) }

// Beat says that a rackd's lease has just been renewed.
type Beat struct {
	Key string // of the rackd in ALIVE
	// Instance is the member's; empty when the lease has been given up, or says something new.
	Instance string
	// Lost: the rackd has found that a bucket has lost what it held. Central, which
	// asks after that much more rarely, is to look.
	Lost bool
}

// lostMark follows the instance in a beat that says Lost.
const lostMark = " lost"

// Group returns the conductor group that the beat's key names.
func (b Beat) Group() string {
	token, _, _ := strings.Cut(b.Key, ".")
	return groupOfToken(token)
}

// groupOfToken is the inverse of GroupToken.
func groupOfToken(token string) string {
	if token == "=" {
		return ""
	}
	return strings.ReplaceAll(token, "=2E", ".")
}

// Beats returns the beats of all rackds that the connection reaches, which may be
// those of other sites too, until ctx ends. What the caller is too slow for is lost.
func (s *Site) Beats(ctx context.Context) (<-chan Beat, error) {
	beats := make(chan Beat, 1024)
	sub, err := s.Conn.Subscribe(beatRoot+">", func(m *nats.Msg) {
		select {
		case beats <- readBeat(m):
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { sub.Unsubscribe() }) // fails on a closed connection only
	return beats, nil
}

func readBeat(m *nats.Msg) Beat {
	instance, lost := strings.CutSuffix(string(m.Data), lostMark)
	return Beat{Key: strings.TrimPrefix(m.Subject, beatRoot), Instance: instance, Lost: lost}
}

// beats is when each member that this process announces has beaten last, and how.
type beats struct {
	mu   sync.Mutex
	last map[string]lastBeat
}

type lastBeat struct {
	at              time.Time
	instance, lease string
	keys            map[string][]string
}

// beat publishes a beat if it is time, or at once if it says something new. A beat
// that is lost costs a look at ALIVE, so errors are nobody's business.
func (s *Site) beat(m Member) {
	key := MemberKey(m.Group, m.Name)
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	// A renewal that comes a little early counts as the one that is due.
	last, known := s.beats.last[key]
	same := known && last.instance == m.Instance && last.lease == m.Lease
	others := same && !SameKeys(last.keys, m.Keys)
	if same && !others && time.Since(last.at) < BeatEvery-LeaseRenew/2 {
		return
	}
	if s.beats.last == nil {
		s.beats.last = map[string]lastBeat{}
	}
	s.beats.last[key] = lastBeat{time.Now(), m.Instance, m.Lease, m.Keys}
	if others { // central is to look at the member, which it knows under this instance
		_ = s.Conn.Publish(beatRoot+key, nil)
		return
	}
	_ = s.Conn.Publish(beatRoot+key, []byte(m.Instance))
}

// SameKeys reports whether two members say the same of the keys that they have.
func SameKeys(a, b map[string][]string) bool { return maps.EqualFunc(a, b, slices.Equal[[]string]) }

// BeatLost tells that a bucket has lost what it held, in the names of the members
// that this process announces.
func (s *Site) BeatLost() {
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	for key, b := range s.beats.last {
		if b.instance != "" {
			_ = s.Conn.Publish(beatRoot+key, []byte(b.instance+lostMark))
		}
	}
}
