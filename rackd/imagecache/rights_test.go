package imagecache

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// private is a server that gives an image to who shows the key, and counts the bytes that
// it was asked for.
type private struct {
	*httptest.Server
	body  string
	asked atomic.Int64
	sent  atomic.Int64
}

func newPrivate(t *testing.T, body string) *private {
	p := &private{body: body}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if r.URL.Query().Get("signature") == "" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		http.ServeContent(counting{w, &p.sent}, r, "", time.Time{}, strings.NewReader(p.body))
	}))
	t.Cleanup(p.Close)
	return p
}

type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return c.ResponseWriter.Write(b)
}

// One tenant's private image is not given to another who knows its checksum alone: neither
// by the address without a right, nor by a server of their own that holds something else,
// nor by the rack's own cache.
func TestAChecksumIsNoRight(t *testing.T) {
	body := strings.Repeat("private", 1000)
	p, dir := newPrivate(t, body), t.TempDir()
	c := openCache(t, Config{Dir: dir})
	own := Source{URL: p.URL + "/image?signature=1", HashValue: sumOf(body)}
	e := mustEnsure(t, c, own)
	cache := httptest.NewServer(c.Handler(codeFits))
	t.Cleanup(cache.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("o", len(body)))) // of the same length
	}))
	t.Cleanup(other.Close)
	for name, url := range map[string]string{"no right": p.URL + "/image", "a server of their own": other.URL + "/image", "a server that is away": "http://127.0.0.1:1/image",
		"this rackd's own cache": cache.URL + Path(codeOf(e.ID), e.ID)} {
		if _, err := c.Ensure(t.Context(), Source{URL: url, HashValue: own.HashValue}); err == nil {
			t.Errorf("%s: the image was given", name)
		}
	}
	another := openCache(t, Config{})
	if _, err := another.Ensure(t.Context(), Source{URL: cache.URL + Path(codeOf(e.ID), e.ID), HashValue: own.HashValue}); !errors.Is(err, ErrSource) {
		t.Errorf("a neighbour's cache was named as the image's address: %v", err)
	}
	if _, err := another.Copy(t.Context(), Source{URL: cache.URL + Path(codeOf(e.ID), e.ID), HashValue: own.HashValue}); err != nil {
		t.Errorf("a copy among neighbours: %v", err)
	}
}

// Who has a right is given the image from the rack: it crosses the WAN once, also with a
// right that is new each time; what is known of addresses outlives rackd.
func TestARightIsAskedForInFewBytes(t *testing.T) {
	body := strings.Repeat("private", 1000)
	p, dir := newPrivate(t, body), t.TempDir()
	c := openCache(t, Config{Dir: dir})
	of := func(key string) Source { return Source{URL: p.URL + "/image?signature=" + key, HashValue: sumOf(body)} }
	mustEnsure(t, c, of("1"))
	asked := p.asked.Load()
	mustEnsure(t, c, of("1"))
	if p.asked.Load() != asked {
		t.Error("an address that gave the image was asked again")
	}
	mustEnsure(t, c, of("2"))
	if sent := p.sent.Load(); p.asked.Load() != asked+1 || sent > int64(len(body))+1 {
		t.Errorf("another right cost %d requests and %d bytes", p.asked.Load()-asked, sent-int64(len(body)))
	}
	p.Close()
	again := openCache(t, Config{Dir: dir})
	mustEnsure(t, again, of("1"))
	if _, err := again.Ensure(t.Context(), of("3")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a right that cannot be checked: %v", err)
	}
	given := of("3")
	given.Given = "sha256-" + given.HashValue // the work had it, from a rackd that has gone
	mustEnsure(t, again, given)
}

// A server may choose the file by a query, too. A file of one's own there is no right to another's.
func TestAQueryMayNameAnotherFile(t *testing.T) {
	body := strings.Repeat("private", 1000)
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		text := strings.Repeat("mine!!!", 1000) // of the same length
		if r.URL.Query().Get("file") == "private" && r.URL.Query().Get("sig") != "" {
			text = body
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
	}))
	t.Cleanup(srv.Close)
	c := openCache(t, Config{})
	of := func(query string) Source { return Source{URL: srv.URL + "/get?" + query, HashValue: sumOf(body)} }
	mustEnsure(t, c, of("file=private&sig=1"))
	for _, query := range []string{"file=mine", "file=mine&sig=1", "sig=1", "sig=1&file=mine&file=private", "SIG=1;file=private", "", "file=mine&x-amz-signature=1"} {
		if _, err := c.Ensure(t.Context(), of(query)); !errors.Is(err, ErrChecksum) {
			t.Errorf("?%s: %v", query, err)
		}
	}
	asked = 0
	mustEnsure(t, c, of("file=private&sig=2&se=tomorrow"))
	if asked != 1 {
		t.Errorf("another signature of the same file was asked for %d times", asked)
	}
}

// A server may show each user other files at one path. Its consent to another user says nothing of the image that is here: that user has to
// be given the very bytes, once, and is not asked for more than consent then.
func TestAnotherUserIsGivenWhatTheServerGivesThem(t *testing.T) {
	body, mine := strings.Repeat("private", 1000), strings.Repeat("mine!!!", 1000) // of the same length
	var sent atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		text := map[string]string{"owner": body, "friend": body}[user+r.URL.Query().Get("token")]
		if text == "" {
			text = mine
		}
		http.ServeContent(counting{w, &sent}, r, "", time.Time{}, strings.NewReader(text))
	}))
	t.Cleanup(srv.Close)
	c := openCache(t, Config{})
	as := func(user string) Source {
		return Source{URL: srv.URL + "/home/image", HashValue: sumOf(body), Authorization: basic(user, "p")}
	}
	inURL := func(user, query string) Source {
		return Source{URL: strings.Replace(srv.URL, "http://", "http://"+user, 1) + "/home/image" + query, HashValue: sumOf(body)}
	}
	mustEnsure(t, c, as("owner"))
	for name, src := range map[string]Source{"a header": as("thief"), "the address": inURL("thief:p@", ""), "a token": inURL("", "?token=thief"),
		"a token with another spelling": inURL("", "?access%5Ftoken=thief"), "none": inURL("", ""), "a signature alone": inURL("", "?signature=1")} {
		if _, err := c.Ensure(t.Context(), src); !errors.Is(err, ErrChecksum) {
			t.Errorf("another user by %s: %v", name, err)
		}
	}
	for _, friend := range []func(signature string) Source{
		func(s string) Source { o := as("friend"); o.URL += "?signature=" + s; return o },
		func(s string) Source { return inURL("friend:p@", "?signature="+s) },
		func(s string) Source { return inURL("", "?token=friend&signature="+s) },
	} {
		sent.Store(0)
		mustEnsure(t, c, friend("1"))
		if got := sent.Load(); got != int64(len(body)) {
			t.Errorf("a user who has the right was sent %d bytes, want all %d once", got, len(body))
		}
		sent.Store(0)
		mustEnsure(t, c, friend("2"))
		if got := sent.Load(); got > 1 {
			t.Errorf("another signature of that user cost %d bytes", got)
		}
	}
}

func TestPlacesOfSignedAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"https://u:p@h/b/k?X-Amz-Algorithm=a&X-Amz-Credential=c%2Fd&X-Amz-Date=1&X-Amz-Expires=9&X-Amz-SignedHeaders=host&X-Amz-Signature=0": "https://h/b/k",
		"https://h/b/k?versionId=7&AWSAccessKeyId=a&Expires=1&Signature=s%3D":                                                                "https://h/b/k?versionId=7",
		"https://h/v1/a/c/o?temp_url_sig=0&temp_url_expires=1&inline":                                                                        "https://h/v1/a/c/o?inline",
		"https://h/c/b?sv=2024&st=a&se=b&sr=b&sp=r&spr=https&sig=x%2B":                                                                       "https://h/c/b",
		"https://h/c/b?sp=5&sr=7":                          "https://h/c/b?sp=5&sr=7",
		"https://h/get?file=a&token=b":                     "https://h/get?file=a",
		"https://h/get?token=a&token=b":                    "https://h/get?token=a&token=b",
		"https://h/get?%zz&token=a":                        "https://h/get?%zz&token=a",
		"https://h/b/k?Policy=p&Signature=s&Key-Pair-Id=k": "https://h/b/k",
		"https://h/b/k?GoogleAccessId=a&X-Goog-Signature=b&generation=1&response-content-type=image": "https://h/b/k?generation=1&response-content-type=image",
	} {
		if got := place(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Another server that holds the very image is read once and compared, whatever it says of
// ranges.
func TestAnotherAddressOfTheSameImage(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	mustEnsure(t, c, o.put("/a", 5000))
	src := o.put("/a", 5000)
	var asked atomic.Int64
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		res, err := http.Get(o.URL + "/a")
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		io.Copy(w, res.Body)
	}))
	t.Cleanup(mirror.Close)
	for range 2 {
		mustEnsure(t, c, Source{URL: mirror.URL + "/b", HashValue: src.HashValue})
	}
	if asked.Load() != 1 {
		t.Errorf("the mirror was asked %d times", asked.Load())
	}
}

// A tenant names the image of another by its checksum, and a server of their own that sends it so slowly that it just passes. The other
// tenant's deploy does not wait for that, nor do those after it. Addresses that differ in a signature alone share one fetch.
func TestASlowServerHoldsUpWhoNamesItAlone(t *testing.T) {
	o := newOrigin(t)
	c := openCache(t, Config{})
	slow := o.put("/held", 5000)
	quick := Source{URL: strings.Replace(o.URL, "127.0.0.1", "localhost", 1) + "/image", HashValue: slow.HashValue}
	o.mu.Lock()
	o.images["/image"] = o.images["/held"]
	o.mu.Unlock()
	ended := make(chan error, 3)
	ask := func(src Source) { _, err := c.Ensure(t.Context(), src); ended <- err }
	signed := slow
	signed.URL += "?signature=2"
	go ask(slow)
	<-o.began
	go ask(signed)
	await(t, func() bool { return waiters(c, slow) == 2 })
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := c.Ensure(ctx, quick); err != nil {
			t.Errorf("the other tenant's image: %v", err)
		}
		cancel()
	}
	select {
	case err := <-ended:
		t.Errorf("the slow server has ended: %v", err)
	default:
	}
	close(o.hold)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if got := o.gets.Load(); got != 3 { // the two servers, and the right of the other signature
		t.Errorf("%d requests", got)
	}
}
