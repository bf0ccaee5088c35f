package bus

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
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

// The beats of one rackd that are heard, at once and in each second after that. A stolen one beats as often as it likes: its
// beats must not take the place of what others say.
const (
	beatsAtOnce = 50
	beatsEach   = 10
	mostBeating = 10_000 // whose pace is remembered: a site's server makes up as many as it likes
)

// BeatSubject is where a rackd's beats are published.
func BeatSubject(group, rackd string) string { return beatRoot + MemberKey(group, rackd) }

// Beat says that a rackd's lease has just been renewed, or what it has found.
type Beat struct {
	Key string // of the rackd in ALIVE
	// Instance is the member's; empty when the lease has been given up.
	Instance string
	// Edition is the member's. A member of another edition than the last one that was read says something new.
	// 0: the rackd is of before editions, or this beat does not say.
	Edition int
	// Lost: the rackd has found that a bucket has lost what it held. Central, which
	// asks after that much more rarely, is to look.
	Lost bool
	// Gone is the key in ALIVE of another rackd, whose lease this one has seen run out; empty: of none.
	Gone string
}

// What may follow the instance in a beat, after a space each.
const (
	lostMark = "lost"
	goneMark = "gone:" // with a key
)

// Renewal reports whether the beat says that the lease has just been renewed. What a rackd has found it tells also when its
// lease is over.
func (b Beat) Renewal() bool { return !b.Lost && b.Gone == "" }

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
// those of other sites too, until ctx ends. What the caller is too slow for is lost, and so is what one rackd says too often.
func (s *Site) Beats(ctx context.Context) (<-chan Beat, error) {
	beats := make(chan Beat, 1024)
	paced := map[string]*rate.Limiter{} // by subject
	sub, err := s.Conn.Subscribe(beatRoot+">", func(m *nats.Msg) {
		pace := paced[m.Subject]
		if pace == nil {
			if len(paced) >= mostBeating {
				clear(paced)
			}
			pace = rate.NewLimiter(beatsEach, beatsAtOnce)
			paced[m.Subject] = pace
		}
		if !pace.Allow() {
			return
		}
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

// readBeat reads a beat. Words that it does not know are a later version's.
func readBeat(m *nats.Msg) Beat {
	b := Beat{Key: strings.TrimPrefix(m.Subject, beatRoot)}
	instance, rest, _ := strings.Cut(string(m.Data), " ")
	b.Instance = instance
	for word := range strings.FieldsSeq(rest) {
		switch key, gone := strings.CutPrefix(word, goneMark); {
		case gone:
			b.Gone = key
		case word == lostMark:
			b.Lost = true
		default:
			if n, err := strconv.Atoi(word); err == nil {
				b.Edition = n
			}
		}
	}
	return b
}

// beats is when each member that this process announces has beaten last, and how.
type beats struct {
	mu   sync.Mutex
	last map[string]lastBeat
}

type lastBeat struct {
	at              time.Time
	instance, lease string
	edition         int
}

// beat publishes a beat if it is time, or at once if it says something new. A beat
// that is lost costs a look at ALIVE, so errors are nobody's business.
func (s *Site) beat(m Member) {
	key := MemberKey(m.Group, m.Name)
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	// A renewal that comes a little early counts as the one that is due.
	last, known := s.beats.last[key]
	same := known && last.instance == m.Instance && last.lease == m.Lease && last.edition == m.Edition
	if same && time.Since(last.at) < BeatEvery-LeaseRenew/2 {
		return
	}
	if s.beats.last == nil {
		s.beats.last = map[string]lastBeat{}
	}
	s.beats.last[key] = lastBeat{time.Now(), m.Instance, m.Lease, m.Edition}
	if m.Instance == "" {
		_ = s.Conn.Publish(beatRoot+key, nil)
		return
	}
	_ = s.Conn.Publish(beatRoot+key, []byte(m.Instance+" "+strconv.Itoa(m.Edition)))
}

// SameKeys reports whether two members say the same of the keys that they have.
func SameKeys(a, b map[string][]string) bool { return maps.EqualFunc(a, b, slices.Equal[[]string]) }

// BeatLost tells that a bucket has lost what it held, in the names of the members
// that this process announces.
func (s *Site) BeatLost() { s.beatOf(lostMark) }

// BeatGone tells that the lease of another rackd has run out, in the names of the members that this process
// announces.
func (s *Site) BeatGone(key string) { s.beatOf(goneMark + key) }

func (s *Site) beatOf(word string) {
	s.beats.mu.Lock()
	defer s.beats.mu.Unlock()
	for key, b := range s.beats.last {
		if b.instance != "" {
			_ = s.Conn.Publish(beatRoot+key, []byte(b.instance+" "+word))
		}
	}
}
