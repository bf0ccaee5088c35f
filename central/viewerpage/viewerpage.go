// Package viewerpage serves a page on which people see a graphical console, with noVNC as the operator has installed it.
//
// It may import nothing of the project. Invariants:
//   - The page and its scripts hold nothing of a node, and no secret: anybody may read them. The console is asked for by the person's
//     browser, with the person's credentials.
//   - Files are read once, when central starts. No request opens one.
//   - The page runs scripts of its own site only, and no other page may show it in a frame.
package viewerpage

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strings"
)

//go:embed page.html page.js
var own embed.FS

// The paths below which the page and noVNC are.
const (
	Pages = "/console/"
	novnc = "/novnc/"
)

// What is read of a folder.
const (
	mostFiles = 500
	mostBytes = 8 << 20
)

// Handler answers for the page. It is safe for concurrent use.
type Handler struct {
	files      map[string][]byte // scripts, by path
	page       []byte
	everything http.Handler
}

// New reads noVNC from a folder, as Debian's package novnc has it at /usr/share/novnc. Other paths than the page's go to everything.
func New(folder string, everything http.Handler) (*Handler, error) {
	h := &Handler{files: map[string][]byte{}, everything: everything}
	bytes := 0
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, e fs.DirEntry, err error) error {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case err != nil:
			return err
		case name == "." || e.IsDir() && (top == "core" || top == "vendor"):
			return nil
		case e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular() || path.Ext(name) != ".js" || top == name:
			return nil
		}
		text, err := os.ReadFile(path.Join(folder, name))
		if bytes += len(text); bytes > mostBytes || len(h.files) >= mostFiles {
			return errors.New("it holds more scripts than noVNC has")
		}
		h.files[novnc+name] = text
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read noVNC from %s: %w", folder, err)
	}
	if h.files[novnc+"core/rfb.js"] == nil {
		return nil, fmt.Errorf("%s is no folder of noVNC: it has no core/rfb.js. Debian's package novnc has one at /usr/share/novnc", folder)
	}
	if h.page, err = own.ReadFile("page.html"); err != nil {
		return nil, err
	}
	h.files[Pages+"page.js"], err = own.ReadFile("page.js")
	return h, err
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node, page := strings.CutPrefix(r.URL.Path, Pages)
	if !page && !strings.HasPrefix(r.URL.Path, novnc) {
		h.everything.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This is a page to read.", http.StatusMethodNotAllowed)
		return
	}
	kind, text := "text/javascript; charset=utf-8", h.files[r.URL.Path]
	if text == nil && page && node != "" && !strings.Contains(node, "/") {
		kind, text = "text/html; charset=utf-8", h.page
	}
	if text == nil {
		http.NotFound(w, r)
		return
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self' "+socket(r)+"; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-cache")
	if r.Method != http.MethodHead {
		_, _ = w.Write(text) // the client is gone when it fails
	}
}

// socket is the address of the page's WebSocket, for the policy: some browsers do not count it as 'self'. It is empty where the request's
// Host is no name.
func socket(r *http.Request) string {
	if r.Host == "" || strings.Trim(strings.ToLower(r.Host), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]") != "" {
		return ""
	}
	return "ws://" + r.Host + " wss://" + r.Host
}
