package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ironyard/ironyard/agent/image"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// readBacks adds up what the deployer's log says of the time that the read-back took.
type readBacks struct {
	slog.Handler
	seconds float64
}

// Handle implements slog.Handler.
func (r *readBacks) Handle(_ context.Context, rec slog.Record) error {
	if strings.HasPrefix(rec.Message, "read back") {
		rec.Attrs(func(a slog.Attr) bool {
			if a.Key == "seconds" {
				r.seconds += a.Value.Float64()
			}
			return true
		})
	}
	return nil
}

// Enabled implements slog.Handler.
func (*readBacks) Enabled(context.Context, slog.Level) bool { return true }

// BenchmarkPrepareImage writes an image of 512 MiB to a file in the place of a disk, and says which part
// of the time reading it back from the medium takes.
func BenchmarkPrepareImage(b *testing.B) {
	const imageSize, diskSize = 512 << 20, 1 << 30
	dir := b.TempDir()
	path, source := filepath.Join(dir, "disk"), filepath.Join(dir, "image")
	img := make([]byte, imageSize)
	rand.NewChaCha8([32]byte{1}).Read(img)
	clear(img[:1<<20])
	clear(img[imageSize-1<<20:])
	if err := os.WriteFile(source, img, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", source)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=400MiB\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("sfdisk: %v: %s", err, out)
	}
	img, err := os.ReadFile(source)
	if err != nil {
		b.Fatal(err)
	}
	disk, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(diskSize); err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(img))
	}))
	defer s.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	sum := sha256.Sum256(img)
	log := &readBacks{Handler: slog.DiscardHandler}
	d := &Deployer{Machine: both{{Name: path, Size: diskSize}}, Log: slog.New(log), EFIVars: dir,
		Images: &image.Writer{Client: &http.Client{Transport: tr}, SpoolDir: dir, SpoolLimit: func() int64 { return 1 << 30 }}}
	p := agentapi.PrepareImageParams{ImageInfo: agentapi.ImageInfo{ID: "i", URLs: []string{s.URL}, HashAlgo: "sha256",
		HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", MinDiskBytes: 1}}
	b.SetBytes(imageSize)
	began := time.Now()
	for b.Loop() {
		if _, err := d.Prepare(b.Context(), p, ignore); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*log.seconds/time.Since(began).Seconds(), "%-read-back")
}
