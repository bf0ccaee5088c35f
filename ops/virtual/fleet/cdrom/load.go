package cdrom

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"
	"strings"
)

// imageType is the media type of an image of a CD for UEFI HTTP boot. Without it the end of the path says what the file is.
const (
	imageType = "application/vnd.efi-iso"
	imageEnd  = ".iso"
)

// most is how many bytes of memory firmware has for an image.
const most = 256 << 20

// Loader is firmware's UEFI HTTP boot.
type Loader struct{ web *http.Client }

// NewLoader returns firmware that loads by HTTPS from servers of these authorities alone; nil: from none.
func NewLoader(authorities *x509.CertPool) Loader {
	if authorities == nil {
		authorities = x509.NewCertPool()
	}
	return Loader{&http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: answers, TLSClientConfig: &tls.Config{RootCAs: authorities}}}}
}

// Load returns what the image at url starts by UEFI HTTP boot. As EDK II does, the firmware asks how large the image is. Then it loads
// all of it. It takes a file for an image of a CD only where its type or its path says so.
func (l Loader) Load(ctx context.Context, url string) (s System, err error) {
	head, err := l.ask(ctx, http.MethodHead, url)
	if err != nil {
		return s, err
	}
	head.Body.Close()
	u, err := neturl.Parse(url)
	if err != nil {
		return s, err
	}
	if kind := head.Header.Get("Content-Type"); !strings.EqualFold(kind, imageType) && !strings.HasSuffix(u.Path, imageEnd) {
		return s, fmt.Errorf("HEAD %s: a file of type %q whose path does not end in %s: firmware does not take it for an image of a CD", url, kind, imageEnd)
	}
	size := head.ContentLength
	if size <= 0 || size > most {
		return s, fmt.Errorf("HEAD %s: the image has %d bytes: firmware has to know how many, and has memory for %d", url, size, most)
	}
	resp, err := l.ask(ctx, http.MethodGet, url)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	body := make([]byte, size)
	if _, err := io.ReadFull(resp.Body, body); err != nil {
		return s, fmt.Errorf("GET %s: %w", url, err)
	}
	d := &disc{ctx: ctx, url: url, size: size, pieces: map[int64][]byte{}}
	for at := int64(0); at*piece < size; at++ {
		d.pieces[at] = body[at*piece : min((at+1)*piece, size)]
	}
	return d.starts()
}

// ask sends a request without a body. Any answer but the whole file is an error.
func (l Loader) ask(ctx context.Context, method, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := l.web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return resp, nil
}
