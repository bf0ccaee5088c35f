package agentdoor

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/seal"
)

// Identities are what a rackd shows agents: those of its own group, and of each group that it
// stands in for. They follow the keyring, whose keys change while the rackd runs. An agent
// that was booted under any generation of a key that is there finds the certificate that it
// was told of. So neighbours that have taken up a change and those that have not serve the
// same agents. Safe for concurrent use.
type Identities struct {
	keys *seal.Keyring
	own  string
	log  *slog.Logger

	mu    sync.Mutex
	shown shown
}

// shown are the identities of the keys that were there when they were made.
type shown struct {
	of     map[string]*seal.Key        // by group
	boots  map[string]Identity         // by group: what machines that boot now are told
	byName map[string]*tls.Certificate // by DoorName, of each generation
}

// NewIdentities makes the identities of the keys, of a rackd of the group own.
func NewIdentities(keys *seal.Keyring, own string, log *slog.Logger) (*Identities, error) {
	made, err := show(keys)
	return &Identities{keys: keys, own: strings.ToLower(own), log: log, shown: made}, err
}

func show(keys *seal.Keyring) (shown, error) {
	s := shown{of: map[string]*seal.Key{}, boots: map[string]Identity{}, byName: map[string]*tls.Certificate{}}
	for _, group := range keys.Groups() {
		key := keys.Of(group)
		s.of[group] = key
		for n, generation := range key.Generations() {
			id, err := NewIdentity(generation)
			if err != nil {
				return s, fmt.Errorf("certificate for the agents of group %q: %w", group, err)
			}
			s.byName[agentapi.DoorName(id.Fingerprint)] = &id.Certificate
			if n == 0 {
				s.boots[group] = id
			}
		}
	}
	return s, nil
}

// now are the identities of the keys that are there now.
func (i *Identities) now() shown {
	i.mu.Lock()
	defer i.mu.Unlock()
	for group, key := range i.shown.of {
		if i.keys.Of(group) == key {
			continue
		}
		fresh, err := show(i.keys)
		if err != nil {
			i.log.Error("agents are shown the certificates of the keys from before", "error", err)
			break
		}
		i.shown = fresh
		break
	}
	return i.shown
}

// Of is what a machine of group that boots now is told, and shown if it asks for none: the
// identity of its group, or of the rackd's own where the rackd does not have that group's key.
func (i *Identities) Of(group string) Identity {
	s := i.now()
	if id, ok := s.boots[strings.ToLower(group)]; ok {
		return id
	}
	return s.boots[i.own]
}

// choose suits tls.Config.GetCertificate: an agent gets the certificate that it asks for by its
// DoorName, and an installer by a name below that; else that of the rackd's own group.
func (i *Identities) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	s := i.now()
	if c := s.byName[hello.ServerName]; c != nil {
		return c, nil
	}
	if _, above, below := strings.Cut(hello.ServerName, "."); below && s.byName[above] != nil {
		return s.byName[above], nil
	}
	own := s.boots[i.own]
	return &own.Certificate, nil
}
