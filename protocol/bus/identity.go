package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/consolecopy"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/protocol/seal"
	"github.com/ironyard/ironyard/protocol/work"
)

// On the bus the subject or key says what a document is about and who may write it,
// because permissions hold it; a body may say anything. The functions here are the only
// readers of what lies on a bus: each reads a body and returns an error that wraps ErrLie
// where the body says something else than its place. Such a body is not taken; the reader
// tells that with Site.Refuse.

// ErrLie means that a body says something else than the subject or key under which it
// lies.
var ErrLie = errors.New("what it says of itself does not fit its place")

func lie(what, says, place string) error {
	return fmt.Errorf("%w: it names %s %.80q, and its place is %.200q", ErrLie, what, says, place)
}

// place splits a key of NODES or WORK, or what follows EVENTS in a subject, into the token
// of the conductor group and the node's UUID.
func place(key string) (token, node string, err error) {
	token, node, found := strings.Cut(key, ".")
	if !found || token == "" || node == "" || strings.Contains(node, ".") {
		return "", "", fmt.Errorf("%w: %.200q is no place of a node", ErrLie, key)
	}
	return token, node, nil
}

// GroupOfKey returns the token of the conductor group that a key of NODES, WORK or ALIVE
// names.
func GroupOfKey(key string) string {
	token, _, _ := strings.Cut(key, ".")
	return token
}

// ReadNode opens a document of NODES and reads its summary; node.Read reads the rest of a body
// that was taken. Of a document of a newer form (node.ErrFormat) it returns what Open does.
func ReadNode(key string, body []byte) (n node.Summary, p node.Posted, err error) {
	token, id, err := place(key)
	if err != nil {
		return n, p, err
	}
	if p, err = node.Open(body); err != nil {
		return n, p, fmt.Errorf("read the document of node %s: %w", id, err)
	}
	n, err = p.Summary(id)
	switch {
	case errors.Is(err, node.ErrOther):
		err = fmt.Errorf("%w: %w", ErrLie, err)
	case err == nil && GroupToken(n.Group) != token:
		err = lie("conductor group", n.Group, key)
	}
	return n, p, err
}

// ReadNodeRevision reads the revision of a document of NODES and nothing else of it, where
// it can: its reader compares the place with the database's row.
func ReadNodeRevision(key string, body []byte) (int64, error) {
	_, id, err := place(key)
	if err != nil {
		return 0, err
	}
	return node.RevisionOf(id, body)
}

// ReadWork reads a document of WORK.
func ReadWork(key string, body []byte) (d work.Document, err error) {
	token, id, err := place(key)
	if err != nil {
		return d, err
	}
	if d, err = work.Read(body); err != nil {
		return d, err
	}
	switch {
	case d.Node != id:
		err = lie("node", d.Node, key)
	case GroupToken(d.Group) != token:
		err = lie("conductor group", d.Group, key)
	}
	return d, err
}

// ReadMember reads a member of ALIVE. Its URLs go into boot scripts, so they are such as
// can stand there. All rackds of a site and central build rings of what it says, so it is small.
func ReadMember(key string, body []byte) (m Member, err error) {
	if len(body) > maxMember {
		return m, fmt.Errorf("%w: it has %d bytes, more than the %d that a rackd may say of itself", ErrLie, len(body), maxMember)
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, err
	}
	large := len(m.Drivers) > maxDrivers || len(m.Keys) > maxKeyGroups || len(m.Further) > MaxFurther
	for _, kinds := range m.Drivers {
		for _, offered := range kinds {
			large = large || len(kinds) > maxDrivers || len(offered) > maxDrivers
		}
	}
	if large {
		return m, fmt.Errorf("%w: it has %d hardware types and keys of %d conductor groups and URLs in %d further networks. A rackd has %d types, interfaces of one type, or implementations of one interface at most. It has keys of %d groups and URLs in %d networks at most",
			ErrLie, len(m.Drivers), len(m.Keys), len(m.Further), maxDrivers, maxKeyGroups, MaxFurther)
	}
	token, name, _ := strings.Cut(key, ".")
	switch {
	case m.Name == "" || GroupToken(m.Name) != name:
		return m, lie("rackd", m.Name, key)
	case GroupToken(m.Group) != token:
		return m, lie("conductor group", m.Group, key)
	}
	urls := []string{m.AgentURL, m.BootURL, m.BootTLSURL, m.AgentURL6, m.BootURL6}
	for _, n := range m.Further {
		urls = append(urls, n.AgentURL, n.BootURL)
	}
	for _, u := range urls {
		if err := checkURL(u); err != nil {
			return m, fmt.Errorf("%w: %.200q: %w", errURL, u, err)
		}
	}
	return m, nil
}

// The bounds of what a rackd says of itself. A group that has many others stand in for it, each with a key of two
// generations, takes some 100 bytes for each.
const (
	maxMember    = 128 << 10
	maxDrivers   = 100
	maxKeyGroups = 1000
)

// MaxFurther is in how many further networks a rackd may have URLs.
const MaxFurther = 100

var errURL = errors.New("its URL cannot stand in a boot script")

// checkURL refuses what could end the word of a boot script or of a kernel's command line
// in which the URL stands, and begin another.
func checkURL(raw string) error {
	if raw == "" {
		return nil
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,;"'\$|&<>`+"`", r) }); i >= 0 {
		return fmt.Errorf("it holds %q", raw[i])
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("it cannot be read")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("want http or https, a host, perhaps a port and a path")
	}
	return nil
}

// ReadConsole opens the copy of a console's log. The group's key proves which node it is of: that of another node opens under no
// other key of the bucket.
func ReadConsole(key string, body []byte, sealed *seal.Key) (c consolecopy.Copy, err error) {
	_, id, err := place(key)
	if err != nil {
		return c, err
	}
	if c, err = consolecopy.Open(sealed, id, body); errors.Is(err, seal.ErrOpen) {
		err = fmt.Errorf("%w: %w", ErrLie, err)
	}
	return c, err
}

// ReadGroup reads a conductor group of GROUPS.
func ReadGroup(key string, body []byte) (g Group, err error) {
	if err = json.Unmarshal(body, &g); err == nil && GroupKey(g.Name) != key {
		err = lie("conductor group", g.Name, key)
	}
	return g, err
}

// ReadEvent reads an event of EVENTS.
func ReadEvent(subject string, body []byte) (*work.Event, error) {
	rest, ours := strings.CutPrefix(subject, EventsStream+".")
	token, id, err := place(rest)
	if !ours || err != nil {
		return nil, fmt.Errorf("%w: %.200q is no subject of events", ErrLie, subject)
	}
	e := new(work.Event)
	if err := json.Unmarshal(body, e); err != nil {
		return nil, err
	}
	switch {
	case e.Node == "":
		return nil, errors.New("event names no node")
	case e.Node != id:
		return e, lie("node", e.Node, subject)
	case GroupToken(e.Group) != token:
		return e, lie("conductor group", e.Group, subject)
	}
	return e, nil
}
