package imagecache

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/rackd/ociimage"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// Source says where an image is and what it must be.
type Source struct {
	URL string // http, https, file or oci
	// HashAlgo is sha256 or sha512; empty: told by the length of the value.
	HashAlgo string
	// HashValue is hex, or the URL of a file of checksums that lists the image. It may be empty for a file on this
	// rackd's machine, and is ignored for oci: a registry names what it holds by checksum.
	HashValue string
	// Authorization is the value of that header, for the address and for checksums at the same server. Secret.
	Authorization string
	// InTheClear are the hosts that a registry's client may show Authorization without TLS, as ociimage.Access has them.
	InTheClear string
	// Proxies between rackd and the address.
	Proxies outbound.Proxies
	// Arch is the architecture of the machine, by which a registry's index is read. Empty: any.
	Arch string
	// Given is the ID of the image that the work which asks was given for this source before, by this rackd or
	// another. Then the address is not asked when that image is here.
	Given string
	// size is what a registry's manifest says, in bytes; 0: nothing.
	size int64
	// copying: it is another rackd's cache, for a copy that no work here has asked for yet.
	copying bool
}

// supplier is who gives an image: an address, the right to it, and the way there.
type supplier struct {
	url, authorization, inTheClear string
	via                            outbound.Proxies
}

func (s Source) supplier() supplier {
	return supplier{s.URL, s.Authorization, s.InTheClear, s.Proxies}
}

// access is what a registry may be shown.
func (s supplier) access() ociimage.Access {
	return ociimage.Access{Authorization: s.authorization, InTheClear: s.inTheClear}
}

// rights names the address with all that decides what its server gives.
func (s supplier) rights() string {
	if s.authorization == "" {
		return s.url
	}
	return s.url + "\n" + s.authorization
}

// checksum identifies content. Its value is lower-case hex of the right length.
type checksum struct{ algo, value string }

func (s checksum) id() string { return s.algo + "-" + s.value }

func (s checksum) hash() hash.Hash {
	if s.algo == "sha512" {
		return sha512.New()
	}
	return sha256.New()
}

// parseChecksum checks a checksum in hex.
func parseChecksum(algo, value string) (checksum, error) {
	algo, value = strings.ToLower(strings.TrimSpace(algo)), strings.ToLower(strings.TrimSpace(value))
	if _, err := hex.DecodeString(value); err != nil {
		return checksum{}, fmt.Errorf("%w: checksum %.140q is not hexadecimal", ErrSource, value)
	}
	is := ""
	switch len(value) {
	case sha256.Size * 2:
		is = "sha256"
	case sha512.Size * 2:
		is = "sha512"
	default:
		return checksum{}, fmt.Errorf("%w: a checksum of %d digits is neither sha256 (64) nor sha512 (128)", ErrSource, len(value))
	}
	if algo != "" && algo != is {
		return checksum{}, fmt.Errorf("%w: hash algorithm %.20q does not fit a checksum of %d digits, which is %s", ErrSource, algo, len(value), is)
	}
	return checksum{is, value}, nil
}

// ValidID reports whether id can name an image: it is an algorithm and a checksum,
// and so a harmless file name.
func ValidID(id string) bool {
	_, ok := parseID(id)
	return ok
}

func parseID(id string) (checksum, bool) {
	algo, value, ok := strings.Cut(id, "-")
	if !ok {
		return checksum{}, false
	}
	s, err := parseChecksum(algo, value)
	return s, err == nil && s.id() == id
}

// parseURL admits addresses that the cache can fetch.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// url's error would repeat the whole address, secrets included.
		return nil, fmt.Errorf("%w: the address of %d characters is not a URL", ErrSource, len(raw))
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host != "" {
			return u, nil
		}
		return nil, fmt.Errorf("%w: %s names no host", ErrSource, show(raw))
	case "file":
		if (u.Host == "" || u.Host == "localhost") && strings.HasPrefix(u.Path, "/") {
			return u, nil
		}
		return nil, fmt.Errorf("%w: %s must be file:// and an absolute path", ErrSource, show(raw))
	case ociimage.Scheme:
		if _, err := ociimage.Parse(raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSource, err)
		}
		return u, nil
	}
	return nil, fmt.Errorf("%w: %s must begin with http://, https://, oci:// or file://", ErrSource, show(raw))
}

// show is an address for logs and errors. User and query go: they may be, or sign,
// a permission.
func show(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable address)"
	}
	s := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.Scheme == derivedScheme {
		s.Opaque = u.Opaque // an image's ID is no secret
	}
	return s.String()
}
