package daemon

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/conductor"
	"github.com/ironyard/ironyard/rackd/imagecache"
)

// A file of an active instance is gone from the cache's folder, cut short there, or has rotted since a rackd was started. The machine
// is sent to none of these: it waits until the file is whole again.
func TestAnInstanceBootsNoFileThatTheDiskHasLost(t *testing.T) {
	const kernel = "a kernel of an instance"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, kernel)
	}))
	defer server.Close()
	for name, lose := range map[string]func(path string) error{
		"gone":    os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 3) },
		"rotten":  func(path string) error { return os.WriteFile(path, []byte(strings.ToUpper(kernel)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			set := imagecache.Config{Dir: t.TempDir(), Client: server.Client()}
			set.Log = slog.New(slog.DiscardHandler)
			cache, err := imagecache.Open(set)
			if err != nil {
				t.Fatal(err)
			}
			e, err := cache.Latest(t.Context(), server.URL+"/k")
			if err != nil {
				t.Fatal(err)
			}
			if name == "rotten" { // what was compared lately is believed, but by this process alone
				if cache, err = imagecache.Open(set); err != nil {
					t.Fatal(err)
				}
			}
			if err := lose(e.Path); err != nil {
				t.Fatal(err)
			}
			files := &instanceFiles{tries: map[string]*try{}, log: slog.New(slog.DiscardHandler), holds: cache.Ready, ensure: cache.Ensure}
			d := directory{bring: files.bring, cached: func(id string) string {
				if !cache.Holds(id) {
					return ""
				}
				return "http://rack/images/" + id
			}}
			order := bootorder.Image(bootorder.File{URL: server.URL + "/k", ID: e.ID, Kept: true})
			waited := false
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				m, _ := d.machine(conductor.BootOrder{Node: &node.Document{}, Order: order}, true)
				if m.Order.Again {
					waited = true
					continue
				}
				if got, err := os.ReadFile(e.Path); err != nil || string(got) != kernel {
					t.Errorf("the machine is sent to a file that holds %q (%v)", got, err)
				}
				break
			}
			for comes := true; comes; time.Sleep(time.Millisecond) { // it writes to the folder still
				files.mu.Lock()
				comes = len(files.tries) > 0
				files.mu.Unlock()
			}
			if !waited {
				t.Error("the machine did not wait until the file was whole again")
			}
		})
	}
}
