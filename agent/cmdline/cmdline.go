// Package cmdline reads the kernel parameters that the boot script gave the
// ramdisk.
//
// It may import protocol/agentapi only. Parameters of others are skipped without
// complaint; one of ours that cannot be read is an error naming it, because a
// half-understood boot ends in a machine that nobody hears of.
package cmdline

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// MaxLine bounds what Parse looks at; Linux itself stops at 2 KiB on x86.
const MaxLine = 64 << 10

// Params is what the boot script told the agent.
type Params struct {
	// APIURLs are base URLs of rackds, without a slash at the end, to be tried in turn.
	APIURLs []string
	// Fingerprint is the lower-case hex SHA-256 of the rackd's certificate.
	Fingerprint string
	// BootMAC is the interface the firmware booted from: lower case, colons, or empty.
	BootMAC string
	// Node is the node's UUID, empty when the boot script did not know it.
	Node  string
	Debug bool
	// EraseShared: disks that other machines may be using are erased too.
	EraseShared bool
	// BootServers are where to ask for all of this, and AskDHCP: DHCP tells one.
	BootServers []string
	AskDHCP     bool
	// ByMedium: the other parameters are on a second virtual medium.
	ByMedium bool
}

// Parse reads a kernel command line. The last of several equal parameters wins.
func Parse(line string) (Params, error) {
	if len(line) > MaxLine {
		return Params{}, fmt.Errorf("kernel command line has %d bytes, more than %d", len(line), MaxLine)
	}
	var p Params
	var errs []error
	for _, word := range split(line) {
		key, value, _ := strings.Cut(word, "=")
		var err error
		switch key {
		case agentapi.ParamAPIURL:
			p.APIURLs, err = ParseURLs(value)
		case agentapi.ParamAPIFingerprint:
			p.Fingerprint, err = ParseFingerprint(value)
		case agentapi.ParamBootMAC:
			p.BootMAC, err = ParseMAC(value)
		case agentapi.ParamNode:
			p.Node = value
		case agentapi.ParamDebug:
			p.Debug = on(value)
		case agentapi.ParamGuardShared:
			p.EraseShared = !on(value)
		case agentapi.ParamBootMethod:
			p.ByMedium = value == agentapi.BootMethodMedium
		case agentapi.ParamBootServer:
			if p.AskDHCP = value == agentapi.BootServerDHCP; p.AskDHCP {
				p.BootServers = nil
			} else {
				p.BootServers, err = parseURLs(value, "http")
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel parameter %s=%q: %w", key, value, err))
		}
	}
	return p, errors.Join(errs...)
}

// on reads a switch: present without a value means on, as with the kernel's own.
func on(value string) bool { return value != "0" && !strings.EqualFold(value, "false") }

// ParseURLs reads a comma-separated list of https base URLs.
func ParseURLs(list string) ([]string, error) { return parseURLs(list, "https") }

func parseURLs(list, scheme string) ([]string, error) {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		u, err := url.Parse(s)
		if err != nil {
			return nil, err
		}
		if u.Scheme != scheme || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("%q is not of the form %s://host[:port]", s, scheme)
		}
		out = append(out, strings.TrimRight(u.String(), "/"))
	}
	if len(out) == 0 {
		return nil, errors.New("no URL in it")
	}
	return out, nil
}

// ParseFingerprint reads a hex SHA-256, with or without colons.
func ParseFingerprint(s string) (string, error) {
	plain := strings.ToLower(strings.ReplaceAll(s, ":", ""))
	if raw, err := hex.DecodeString(plain); err != nil || len(raw) != 32 {
		return "", errors.New("not the 64 hex digits of a SHA-256")
	}
	return plain, nil
}

// ParseMAC reads aa:bb:cc:dd:ee:ff, also with dashes, and pxelinux's form, which
// puts the hardware type in front (01-aa-bb-cc-dd-ee-ff).
func ParseMAC(s string) (string, error) {
	plain := strings.ToLower(strings.ReplaceAll(s, "-", ":"))
	if len(plain) == len("01:aa:bb:cc:dd:ee:ff") {
		plain = plain[3:]
	}
	mac, err := net.ParseMAC(plain)
	if err != nil || len(mac) != 6 {
		return "", errors.New("not an Ethernet address")
	}
	return mac.String(), nil
}

// split cuts at white space outside double quotes, as the kernel does.
func split(line string) []string {
	var words []string
	var word strings.Builder
	quoted := false
	flush := func() {
		if word.Len() > 0 {
			words = append(words, word.String())
			word.Reset()
		}
	}
	for _, r := range line {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r == ' ' || r == '\t' || r == '\n'):
			flush()
		default:
			word.WriteRune(r)
		}
	}
	flush()
	return words
}
