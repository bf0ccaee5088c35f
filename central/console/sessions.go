package console

import (
	"fmt"
	"sync"
	"time"
)

// Metrics counts sessions. Safe for concurrent use.
type Metrics interface {
	// ConsoleSession counts a session that begins (1) or ends (-1).
	ConsoleSession(change int)
}

// Sessions counts those of a replica. It is safe for concurrent use.
type Sessions struct {
	metrics Metrics
	mu      sync.Mutex
	all     int
	nodes   map[string]int
	of      map[string]int       // by project
	told    map[string]time.Time // by node and user
}

// NewSessions returns a count of none. metrics may be nil.
func NewSessions(metrics Metrics) *Sessions {
	return &Sessions{metrics: metrics, nodes: map[string]int{}, of: map[string]int{}, told: map[string]time.Time{}}
}

// Enter takes a place for a session of a node. The caller is of that project. An error says why there is no place. leave gives
// it back.
func (s *Sessions) Enter(node, project string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.nodes[node] >= MaxOfNode:
		return nil, fmt.Errorf("%d sessions of its console are open, and no more may be", s.nodes[node])
	case s.of[project] >= MaxOfProject:
		return nil, fmt.Errorf("%d sessions of consoles are open in the name of %s, and no more may be", s.of[project], project)
	case s.all >= MaxSessions:
		return nil, fmt.Errorf("%d sessions of consoles are open here, and no more may be", s.all)
	}
	s.all++
	s.nodes[node]++
	s.of[project]++
	if s.metrics != nil {
		s.metrics.ConsoleSession(1)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.nodes[node]--; s.nodes[node] == 0 {
			delete(s.nodes, node)
		}
		if s.of[project]--; s.of[project] == 0 {
			delete(s.of, project)
		}
		if s.metrics != nil {
			s.metrics.ConsoleSession(-1)
		}
	}, nil
}

// toldFor is for how long a session of the same user at the same node is no news.
const toldFor = 10 * time.Minute

// News reports whether a session of a user is to be told of in the node's history: who opens a hundred leaves one line.
func (s *Sessions) News(node, user string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key, at := range s.told {
		if now.Sub(at) > toldFor {
			delete(s.told, key)
		}
	}
	key := node + " " + user
	_, known := s.told[key]
	if !known {
		s.told[key] = now
	}
	return !known
}
