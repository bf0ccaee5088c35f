// Package ociimage finds and opens files in OCI registries: disk images, kernels and ramdisks that were pushed as
// artifacts, each the only layer of its manifest.
//
// It imports nothing of the project. Invariants:
//
//   - Manifests are bounded and compared with their digest before they are read; what is inside a file is for the caller
//     to compare with the checksum that Resolve returns.
//   - Credentials go to the registry that an address names and to the token server that this registry names; never over
//     plain HTTP to a token server of a registry that speaks TLS. They go over plain HTTP only to hosts that Access names for that.
//   - Errors hold no credentials and no query of a URL, which may sign a permission.
package ociimage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Scheme of the addresses.
const Scheme = "oci"

var (
	// ErrReference: the address, or what it names, cannot be used as it is.
	ErrReference = errors.New("unusable reference of a registry")
	// ErrRefused: the registry does not give it: there is no such thing, or no permission.
	ErrRefused = errors.New("not given by the registry")
)

// Client of registries. Its fields do not change; safe for concurrent use.
type Client struct {
	HTTP *http.Client
	// Plain are the hosts, with their ports, that are spoken to without TLS.
	Plain []string
}

// Blob is a file in a registry.
type Blob struct {
	URL string // of the very content, for Open
	// Algorithm is sha256 or sha512; Checksum is lower-case hex.
	Algorithm, Checksum string
	// Size is what the manifest says, in bytes; 0: nothing.
	Size int64
}

// Parse reads oci://host[:port]/name, with :tag or @digest behind it; without both the tag is latest.
func Parse(raw string) (registry.Reference, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != Scheme || u.Host == "" {
		return registry.Reference{}, fmt.Errorf("%w: give %s://host/name:tag or %s://host/name@sha256:…", ErrReference, Scheme, Scheme)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return registry.Reference{}, fmt.Errorf("%w: an %s address holds no user, query or fragment; credentials are in image_pull_secret", ErrReference, Scheme)
	}
	// Ironic's own documentation has an empty tag before a digest.
	ref, err := registry.ParseReference(u.Host + strings.Replace(u.Path, ":@", "@", 1))
	if err != nil {
		return registry.Reference{}, fmt.Errorf("%w: %s%s: give %s://host/name:tag or %s://host/name@sha256:…", ErrReference, u.Host, u.Path, Scheme, Scheme)
	}
	if ref.Reference == "" {
		ref.Reference = "latest"
	}
	return ref, nil
}

// Open opens a file that Resolve has found. size is -1 where the registry does not tell.
func (c *Client) Open(ctx context.Context, address string, access Access) (body io.ReadCloser, size int64, err error) {
	ref, err := Parse(address)
	if err != nil {
		return nil, 0, err
	}
	if _, err := digest.Parse(ref.Reference); err != nil {
		return nil, 0, fmt.Errorf("%w: %s has no digest", ErrReference, address)
	}
	repo, err := c.repository(ref, access)
	if err != nil {
		return nil, 0, err
	}
	desc, body, err := repo.Blobs().FetchReference(ctx, ref.Reference)
	if err != nil {
		return nil, 0, said(ref, err)
	}
	return body, desc.Size, nil
}

// repository returns a client for one repository. What it learns of tokens is kept for this call only: another node's
// credentials may give less. A registry without TLS that may not be shown the credentials is not asked at all: without them it might
// give something else.
func (c *Client) repository(ref registry.Reference, access Access) (*remote.Repository, error) {
	plain := slices.Contains(c.Plain, ref.Registry)
	if plain && access.Authorization != "" && !access.mayShow(ref.Registry) {
		return nil, fmt.Errorf("%w: this rackd speaks to registry %s without TLS (--plain-registries), and image_server_hosts of driver_info has it without http:// before it; "+
			"write http://%s there if all on the way may read the credentials, or serve the registry with TLS", ErrInTheClear, ref.Registry, ref.Registry)
	}
	web := *c.HTTP
	if web.Transport == nil {
		web.Transport = http.DefaultTransport
	}
	web.Transport = guarded{web.Transport, access}
	// Which addresses are dialled is for the HTTP client to judge, those of token servers too.
	a := &auth.Client{Client: &web, Cache: auth.NewCache(), BlockedRealmPrefixes: []netip.Prefix{}}
	a.SetUserAgent("ironyard-rackd")
	if held := credential(access.Authorization); held != auth.EmptyCredential {
		a.Credential = auth.StaticCredential(ref.Host(), held)
	}
	return &remote.Repository{Client: a, Reference: ref, PlainHTTP: plain, MaxMetadataBytes: maxManifest}, nil
}

// credential is what the value of an Authorization header says, in the registry's terms.
func credential(authorization string) auth.Credential {
	scheme, value, _ := strings.Cut(authorization, " ")
	switch {
	case strings.EqualFold(scheme, "Basic"):
		plain, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return auth.EmptyCredential
		}
		user, password, _ := strings.Cut(string(plain), ":")
		return auth.Credential{Username: user, Password: password}
	case strings.EqualFold(scheme, "Bearer"):
		// A registry that asks for a password, and for no token, judges the token as one.
		return auth.Credential{AccessToken: value, Username: "token", Password: value}
	}
	return auth.EmptyCredential
}

// mismatch is what the library says where a registry's header names another digest than was asked for, or than the content has. It has no
// type for that.
const mismatch = "digest mismatch in "

// otherContent says that a registry does not give what was asked for by its digest.
func otherContent(ref registry.Reference) error {
	return fmt.Errorf("%w: registry %s gives something else for %s:%s than what has that digest", ErrRefused, ref.Registry, ref.Repository, ref.Reference)
}

var query = regexp.MustCompile(`\?[^"\s]*`)

// said puts an error of the library into the words of this package.
func said(ref registry.Reference, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("ask registry %s: %w", ref.Registry, u.Err)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("%w: %s has no %s:%s", ErrRefused, ref.Registry, ref.Repository, ref.Reference)
	}
	if answer, ok := errors.AsType[*errcode.ErrorResponse](err); ok {
		text := fmt.Sprintf("registry %s answered %d %s", ref.Registry, answer.StatusCode, http.StatusText(answer.StatusCode))
		for _, e := range answer.Errors {
			text += fmt.Sprintf(", %.100q", e.Code)
		}
		switch {
		case answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout:
		case answer.StatusCode == http.StatusUnauthorized:
			return fmt.Errorf("%w: %s for %s; set or correct image_pull_secret", ErrRefused, text, ref.Repository)
		case answer.StatusCode >= 400 && answer.StatusCode < 500:
			return fmt.Errorf("%w: %s for %s", ErrRefused, text, ref.Repository)
		}
		return fmt.Errorf("%s for %s", text, ref.Repository)
	}
	if strings.Contains(err.Error(), mismatch) {
		return otherContent(ref)
	}
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return fmt.Errorf("%w: registry %s asks for a user and a password; set image_pull_secret", ErrRefused, ref.Registry)
	}
	return fmt.Errorf("ask registry %s for %s: %s", ref.Registry, ref.Repository, query.ReplaceAllString(err.Error(), "?…"))
}
