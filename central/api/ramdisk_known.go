package api

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/ironyard/ironyard/central/api/wire"
)

// knownAgents are those whose token was right: a rackd has given it out in answer to a lookup, or has taken a
// heartbeat with it. Their next heartbeats take no slots of strangers. It decides nothing else: the rackd looks at
// each token. It is safe for concurrent use.
type knownAgents struct {
	now func() time.Time
	key []byte

	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

const (
	// maxKnownAgents bounds how many are remembered.
	maxKnownAgents = 32_768
	// agentKnownFor is how long one is after it was last heard: some heartbeats, which may come minutes apart.
	agentKnownFor = 30 * time.Minute
)

func newKnownAgents(now func() time.Time) *knownAgents {
	k := &knownAgents{now: now, key: make([]byte, sha256.Size), until: map[[sha256.Size]byte]time.Time{}}
	rand.Read(k.key) // never fails
	return k
}

// id stands for a node, under the name that its agent has for it, and a token. No token is kept.
func (k *knownAgents) id(node, token string) [sha256.Size]byte {
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(node))
	mac.Write([]byte{0})
	mac.Write([]byte(token))
	return [sha256.Size]byte(mac.Sum(nil))
}

// learn remembers that a token is right.
func (k *knownAgents) learn(node, token string) {
	if token == "" {
		return
	}
	id, now := k.id(node, token), k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, known := k.until[id]; !known && len(k.until) >= maxKnownAgents {
		for old, until := range k.until {
			if !now.Before(until) {
				delete(k.until, old)
			}
		}
		for old := range k.until {
			if len(k.until) < maxKnownAgents*9/10 {
				break
			}
			delete(k.until, old)
		}
	}
	k.until[id] = now.Add(agentKnownFor)
}

// forget is for a token that is right no more.
func (k *knownAgents) forget(node, token string) {
	id := k.id(node, token)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.until, id)
}

func (k *knownAgents) knows(node, token string) bool {
	id, now := k.id(node, token), k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	until, known := k.until[id]
	return known && now.Before(until)
}

// knownBeat reports whether a heartbeat is of an agent that is known.
func (s *Server) knownBeat(r *Request) bool {
	raw, _, err := wire.Survey(r.stranger.body, r.stranger.gate.Values)
	if err != nil {
		return false // its handler says so
	}
	node := raw.Member("node_ident").Text()
	if len(r.params) > 0 {
		node = r.Param(0)
	}
	return s.agents.knows(node, raw.Member("agent_token").Text())
}
