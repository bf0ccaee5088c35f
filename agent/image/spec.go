package image

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/protocol/diskformat"
)

func (s Spec) newHash() hash.Hash {
	if s.HashAlgo == "sha512" {
		return sha512.New()
	}
	return sha256.New()
}

// check refuses what cannot work before anything is fetched.
func (s Spec) check() error {
	bad := func(format string, args ...any) error {
		return &FormatError{Image: s.ID, Reason: fmt.Sprintf(format, args...)}
	}
	if s.HashAlgo != "sha256" && s.HashAlgo != "sha512" {
		return bad("checksum algorithm %q is not supported: use sha256 or sha512", s.HashAlgo)
	}
	sum, err := hex.DecodeString(s.HashValue)
	if err != nil || len(sum) != s.newHash().Size() {
		return bad("checksum %q is not a %s in hex", s.HashValue, s.HashAlgo)
	}
	if s.Format != "raw" && s.Format != "qcow2" {
		return bad("disk format %q is not supported: use raw or qcow2", s.Format)
	}
	switch s.Compression {
	case "", diskformat.Gzip, diskformat.Zstd, diskformat.XZ:
	default:
		return bad("compression %q is not supported: use gzip, zstd, xz or none", s.Compression)
	}
	if len(s.URLs) == 0 {
		return bad("no URL given")
	}
	for _, u := range s.URLs {
		if p, err := url.Parse(u); err != nil || (p.Scheme != "http" && p.Scheme != "https") || p.Host == "" {
			return bad("%q is not an http or https URL", redact(u))
		}
	}
	return nil
}

// verify compares a finished hash with what was promised.
func (s Spec) verify(h hash.Hash, url string, n int64) error {
	if got := hex.EncodeToString(h.Sum(nil)); !strings.EqualFold(got, s.HashValue) {
		return &ChecksumError{URL: redact(url), Algo: s.HashAlgo, Want: strings.ToLower(s.HashValue), Got: got, Bytes: n}
	}
	return nil
}

// headLen is how many bytes sniff wants to see.
const headLen = diskformat.HeadLen

// sniff refuses content that is not what was declared. head is the start of the
// disk image, after decompression.
func (s Spec) sniff(head []byte, url string) error {
	found := diskformat.Sniff(head)
	if c := diskformat.Compression(head); c != "" {
		found = c + "-compressed"
	}
	if found == s.Format {
		return nil
	}
	declared := s.Format
	if s.Compression != "" {
		declared += " after " + s.Compression
	}
	return &FormatError{Image: s.ID, Reason: fmt.Sprintf(
		"%s is declared as %s but its content is %s: correct the image's disk format or compression", redact(url), declared, found)}
}

// redact keeps passwords and signed queries out of messages.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	u.User = nil
	if u.RawQuery != "" {
		u.RawQuery = "…"
	}
	return strings.ReplaceAll(u.String(), "%E2%80%A6", "…")
}
