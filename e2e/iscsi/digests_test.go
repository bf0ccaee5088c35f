package iscsi

import (
	"regexp"
	"testing"

	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The processor computes the digests of the target's segments: of the kernel's ways to do so it takes the first, and a session uses it.
func TestDigestsByTheProcessor(t *testing.T) {
	m := boot(t, "cat")
	p := order(1)
	m.done(agentapi.CmdStartISCSI, p, nil)
	s, err := m.login(p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Disk(m.ctx); err != nil {
		t.Fatal(err)
	}
	ways := m.Shell(m.ctx, t, "cat /proc/crypto")
	m.done(agentapi.CmdStopISCSI, agentapi.StopISCSIParams{}, nil)
	if !byProcessor.MatchString(ways) {
		t.Errorf("no session computes CRC32C by the processor:\n%s", crc32c.FindAllString(ways, -1))
	}
}

var (
	// crc32c is the kernel's description of one way.
	crc32c = regexp.MustCompile(`(?m)^name +: crc32c\n(.+\n)+`)
	// byProcessor is that of the processor's own, which more than the kernel's table of ways refers to.
	byProcessor = regexp.MustCompile(`(?m)^name +: crc32c\ndriver +: crc32c-intel\n(.+\n)*refcnt +: ([2-9]|[1-9][0-9])\n`)
)
