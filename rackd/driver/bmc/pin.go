package bmc

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Pins are the public keys that BMCs showed at first use, by node, for fields such as redfish_verify_ca that say node.PinKey. The node's
// document brings them to the other rackds. Pins implements driver.Keeper.
type Pins struct {
	mu   sync.Mutex // a first use is one
	kept Keeping[pinned]
}

// NewPins returns Pins that know no key but those of the nodes' documents.
func NewPins() *Pins { return &Pins{kept: Keeping[pinned]{Counter: "bmc_keys_changes"}} }

// pinned is what is kept of a node.
type pinned struct {
	// Keys has, for each field, the address and the SHA-256 of the key, as FIELD HOST:PORT HEX, with commas between.
	Keys string `json:"bmc_keys,omitempty"`
	// Since is node.Document.PinnedSince when the keys were pinned.
	Since int64 `json:"bmc_keys_since,omitempty"`
}

// mostPins bounds the keys of one node. A node has one field for each way to its BMC.
const mostPins = 8

// Kept implements driver.Keeper.
func (p *Pins) Kept(n *node.Document) json.RawMessage { return p.kept.Kept(n) }

// Of returns the key that is pinned by a field for an address; empty: none yet.
func (p *Pins) Of(n *node.Document, field, address string) string {
	for _, line := range p.lines(n) {
		if key, is := strings.CutPrefix(line, field+" "+withPort(address)+" "); is {
			return key
		}
	}
	return ""
}

// lines are the keys that an operator has not told to forget since. A document that is older than they are tells nothing of it.
func (p *Pins) lines(n *node.Document) []string {
	v := p.kept.Of(n)
	if v.Keys == "" || v.Since < n.PinnedSince {
		return nil
	}
	return strings.Split(v.Keys, ",")
}

// first pins a key that a BMC shows, unless there is one already, and returns the one that is pinned then. A field has one address: the
// key of another is forgotten.
func (p *Pins) first(n *node.Document, field, address, shown string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.Of(n, field, address); known != "" {
		return known
	}
	lines := slices.DeleteFunc(p.lines(n), func(line string) bool { return strings.HasPrefix(line, field+" ") })
	lines = append(lines, field+" "+withPort(address)+" "+shown)
	lines = lines[max(len(lines)-mostPins, 0):]
	p.kept.Change(n, func(v *pinned) { v.Keys, v.Since = strings.Join(lines, ","), max(v.Since, n.PinnedSince) })
	return shown
}

// withPort is an address, which may be a URL, as HOST:PORT.
func withPort(address string) string {
	if _, rest, is := strings.Cut(address, "://"); is {
		address = rest
	}
	if colon := strings.LastIndexByte(address, ':'); colon > strings.LastIndexByte(address, ']') {
		if _, err := strconv.Atoi(address[colon+1:]); err == nil {
			return address
		}
	}
	return address + ":443"
}

// Changed is the error of a connection whose other end has another key than the one that is pinned. It wraps driver.ErrInvalid.
type Changed struct {
	// Field is that of driver_info which asks for the pin. Pinned and Shown are SHA-256 sums, in hexadecimal.
	Field, Pinned, Shown string
}

func (c *Changed) Error() string {
	return fmt.Sprintf("shows another public key (SHA-256 %s) than at first use (SHA-256 %s). No password was sent. If the BMC has a new certificate, "+
		"set driver_info %s to %s once more: rackd then forgets the old key: %s", c.Shown, c.Pinned, c.Field, node.PinKey, driver.ErrInvalid)
}

// Unwrap returns driver.ErrInvalid: an operator has to decide.
func (c *Changed) Unwrap() error { return driver.ErrInvalid }

// pin is a check of the other end's key for a tls.Config, for all its connections: they belong to one session, so they show one key.
func (t Trust) pin() func(tls.ConnectionState) error {
	var mu sync.Mutex
	var seen string
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("it shows no certificate")
		}
		sum := sha256.Sum256(s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		shown := hex.EncodeToString(sum[:])
		mu.Lock()
		defer mu.Unlock()
		want := seen
		if want == "" {
			want = t.Pins.first(t.Node, t.Field, t.Address, shown)
		}
		if want != shown {
			return &Changed{t.Field, want, shown}
		}
		seen = shown
		return nil
	}
}
