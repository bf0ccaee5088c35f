package imagecache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/trickle"
	"github.com/ironyard/ironyard/rackd/ociimage"
	"github.com/ironyard/ironyard/rackd/outbound"
)

// A checksum names content, it is no right to it: who knows one could have another's private
// image. So an image that is here is given for an address that has given it. For another
// signature at the same place, which is another right, its server is asked. Another user, and any other
// place, has to be given the very bytes, and is read once: a server may show each user other files at one place.
// A query may also say which file is meant, and then it is of the place.

const (
	// sourceFile keeps, in the cache's folder, which addresses have given what.
	sourceFile = "sources.json"
	// maxSources bounds the addresses of one image that are known: signed ones are new
	// with each deploy. The oldest is forgotten, and its server asked again.
	maxSources = 32
	// headerImage marks answers of a rackd's image cache. Only copies are taken from there:
	// named as an image's address, a cache would give what its own rackd refuses.
	headerImage = "Ironyard-Image"
)

// sources are the addresses that have given an image, as hashes: they may hold secrets.
type sources struct {
	Whole  []string `json:"whole"`  // with user and query
	Places []string `json:"places"` // without, and who was given it there
}

// gave notes that an address has given an image.
func (c *Cache) gave(id string, from supplier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[id]
	if s == nil {
		s = &sources{}
		c.sources[id] = s
	}
	for list, h := range map[*[]string]string{&s.Whole: hashed(from.rights()), &s.Places: hashed(from.place())} {
		if !slices.Contains(*list, h) {
			*list = append((*list)[max(0, len(*list)+1-maxSources):], h)
		}
	}
	for other := range c.sources {
		if c.entries[other] == nil && len(c.flights[other]) == 0 {
			delete(c.sources, other)
		}
	}
	body, err := json.Marshal(c.sources)
	path := filepath.Join(c.dir, sourceFile)
	if err == nil {
		if err = os.WriteFile(path+partSuffix, body, 0o600); err == nil {
			err = os.Rename(path+partSuffix, path)
		}
	}
	if err != nil {
		c.log.Warn("addresses of images not saved: after a restart their servers are asked again", "file", path, "error", err)
	}
}

// loadSources reads what a former process noted; without it servers are asked again.
func (c *Cache) loadSources() {
	body, err := os.ReadFile(filepath.Join(c.dir, sourceFile))
	if err == nil {
		err = json.Unmarshal(body, &c.sources)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.log.Warn("addresses that gave images cannot be read; their servers are asked again", "error", err)
	}
	for id, s := range c.sources {
		if s == nil || c.entries[id] == nil {
			delete(c.sources, id)
		}
	}
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// place is an address without its user, and without what signs it.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, RawQuery: unsigned(u.RawQuery)}).String()
}

// place is the place of the address, and the user who is given what lies there.
func (s supplier) place() string { return place(s.url) + "\n" + s.user() }

// tokens are parameters of a query that are a user's, where those of a signature are of one file.
var tokens = []string{"token", "access_token"}

// user is who asks the server: a header says it, or the address itself. It is empty for registries. They name each file by its checksum,
// so that all users are given the same one.
func (s supplier) user() string {
	u, err := url.Parse(s.url)
	if err != nil || u.Scheme == ociimage.Scheme {
		return ""
	}
	parts := []string{s.authorization, u.User.String()}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil && slices.Contains(tokens, strings.ToLower(plain)) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "\n")
}

// The parameters of a query that say who may read, and until when: of S3, Google, Swift and Azure, and of many others. Those with these
// beginnings, of these names, and of these names beside a sig.
var (
	signers        = []string{"x-amz-", "x-goog-", "temp_url_"}
	signatures     = []string{"awsaccesskeyid", "googleaccessid", "signature", "expires", "token", "access_token", "key-pair-id", "policy", "sig"}
	besideAzureSig = []string{"sv", "st", "se", "sr", "sp", "sip", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv"}
)

// unsigned is a query without what signs it. A parameter that is not known stays, as does one that is there twice.
func unsigned(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil || query == "" {
		return query
	}
	_, azure := values["sig"]
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		lower := strings.ToLower(plain)
		is := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
		signs := slices.ContainsFunc(signers, is) || slices.Contains(signatures, lower) || azure && slices.Contains(besideAzureSig, lower)
		if err != nil || !signs || len(values[plain]) > 1 {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// entitled returns nil when an address may be answered with an image that is here.
func (c *Cache) entitled(ctx context.Context, src Source, e Entry) error {
	if src.copying {
		return nil
	}
	from := src.supplier()
	c.mu.Lock()
	var whole, there bool
	if s := c.sources[e.ID]; s != nil {
		whole, there = slices.Contains(s.Whole, hashed(from.rights())), slices.Contains(s.Places, hashed(from.place()))
	}
	c.mu.Unlock()
	if whole {
		return nil
	}
	// A proxy that a node names may answer in the server's place: its consent alone says nothing.
	err := c.compare(ctx, from, e, there && from.via == (outbound.Proxies{}))
	if err == nil {
		c.gave(e.ID, from)
	}
	return err
}

// compare asks an address whether it gives what is here. Where this user was given it at the place,
// its server's consent is enough; else every byte is compared.
func (c *Cache) compare(ctx context.Context, from supplier, e Entry, there bool) error {
	raw := from.url
	ctx, watch := trickle.Begin(ctx, show(raw), c.stall)
	defer watch.Stop()
	body, size, err := c.open(ctx, request{from: from, consent: there})
	if err != nil {
		return err
	}
	defer body.Close()
	if there {
		return nil
	}
	other := fmt.Errorf("%w: %s holds another file than the one with %s %s; correct the checksum of the node's image or its address",
		ErrChecksum, show(raw), e.HashAlgo, e.HashValue)
	if size >= 0 && size != e.Size {
		return other
	}
	f, err := os.Open(e.Path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	defer f.Close()
	ours, theirs := make([]byte, 1<<20), make([]byte, 1<<20)
	for in := watch.Reader(body); ; {
		n, err := io.ReadFull(in, theirs)
		m, ownErr := io.ReadFull(f, ours)
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, show(raw), context.Cause(ctx))
		}
		if ownErr != nil && ownErr != io.EOF && ownErr != io.ErrUnexpectedEOF {
			return fmt.Errorf("%w: %w", ErrDisk, ownErr)
		}
		ended := err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case err != nil && !ended:
			return fmt.Errorf("%w: %s broke off: %w", ErrUnavailable, show(raw), err)
		case n != m || !bytes.Equal(ours[:n], theirs[:n]):
			return other
		case ended:
			return nil
		}
	}
}
