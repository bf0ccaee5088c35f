// Package containertest gives tests a registry with containers in it. It is Debian's docker-registry, and the images are of OCI's format.
//
// It may import nothing of the project. Invariant: the registry ends with the test.
package containertest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Program is the path of a program of Debian's. A test without it is skipped, and fails where IRONYARD_E2E says that all is to run.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	at, err := exec.LookPath(name)
	if err == nil {
		return at
	}
	if os.Getenv("IRONYARD_E2E") == "" {
		t.Skipf("no %s (Debian package %s); IRONYARD_E2E=1 makes that an error", name, debian)
	}
	t.Fatalf("no %s (Debian package %s)", name, debian)
	return ""
}

// File is a file of an image, or a link to what Data names.
type File struct {
	Perm fs.FileMode
	Link bool
	Data []byte
}

// Layer packs files, by their paths, with a folder for each of their parents.
func Layer(files map[string]File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var names []string
	parents := map[string]bool{".": true}
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var folder func(dir string) error
	folder = func(dir string) error {
		if parents[dir] {
			return nil
		}
		if err := folder(path.Dir(dir)); err != nil {
			return err
		}
		parents[dir] = true
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for _, name := range names {
		f := files[name]
		if err := folder(path.Dir(name)); err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.Perm.Perm()), Size: int64(len(f.Data))}
		if f.Link {
			h = &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: string(f.Data), Mode: 0o777}
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if !f.Link {
			if _, err := w.Write(f.Data); err != nil {
				return nil, err
			}
		}
	}
	return out.Bytes(), w.Close()
}

// Registry is the folder of a registry. It serves what was pushed to it.
type Registry struct{ folder string }

// New is an empty registry.
func New(t testing.TB) *Registry {
	t.Helper()
	Program(t, "docker-registry", "docker-registry")
	return &Registry{t.TempDir()}
}

// At is a registry in a folder, which outlives the test.
func At(folder string) *Registry { return &Registry{folder} }

// start starts a program where the registry's clients reach it.
type start func(ctx context.Context, name string, args ...string) *exec.Cmd

// Serve serves the registry by HTTP at an address until the test ends. The account that it asks for is user and password with a colon
// between; empty: it asks for none. command starts programs where the clients reach them.
func (r *Registry) Serve(t testing.TB, addr, account string, command start) {
	t.Helper()
	stop, err := r.serve(addr, account, command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

func (r *Registry) serve(addr, account string, command start) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "registry-")
	if err != nil {
		return nil, err
	}
	access := ""
	if user, password, has := strings.Cut(account, ":"); has {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			return nil, err
		}
		at := filepath.Join(dir, "htpasswd")
		if err := os.WriteFile(at, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600); err != nil {
			return nil, err
		}
		access = fmt.Sprintf("auth: {htpasswd: {realm: registry, path: %s}}\n", at)
	}
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\n%shttp:\n  addr: %s\n", r.folder, access, addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := command(context.Background(), "docker-registry", "serve", config)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (Debian's package docker-registry)", err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		out, err := command(context.Background(), "curl", "-s", "-S", "-o", "/dev/null", "http://"+addr+"/v2/").CombinedOutput()
		if err == nil {
			return stop, nil
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("the registry does not start: %w: %s: %s", err, out, said.Bytes())
		}
	}
}

// Push puts an image of one layer into the registry, with variables for its programs.
func (r *Registry) Push(ctx context.Context, name, tag string, layer []byte, env ...string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	stop, err := r.serve(addr, "", exec.CommandContext)
	if err != nil {
		return err
	}
	defer stop()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	p := push{ctx, client, "http://" + addr + "/v2/" + name}
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "config": map[string]any{"Env": env},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}}})
	if err != nil {
		return err
	}
	ofConfig, err := p.blob("application/vnd.oci.image.config.v1+json", config)
	if err != nil {
		return err
	}
	ofLayer, err := p.blob("application/vnd.oci.image.layer.v1.tar", layer)
	if err != nil {
		return err
	}
	const kind = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": kind, "config": ofConfig, "layers": []any{ofLayer}})
	if err != nil {
		return err
	}
	_, err = p.send(http.MethodPut, p.base+"/manifests/"+tag, kind, manifest)
	return err
}

// push is a connection to a registry that takes what it is given.
type push struct {
	ctx    context.Context
	client *http.Client
	base   string
}

func (p push) blob(kind string, b []byte) (map[string]any, error) {
	h, err := p.send(http.MethodPost, p.base+"/blobs/uploads/", "", nil)
	if err != nil {
		return nil, err
	}
	_, err = p.send(http.MethodPut, h.Get("Location")+"&digest="+digest(b), "application/octet-stream", b)
	return map[string]any{"mediaType": kind, "digest": digest(b), "size": len(b)}, err
}

func (p push) send(method, url, kind string, body []byte) (http.Header, error) {
	req, err := http.NewRequestWithContext(p.ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	res, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, url, res.Status, text)
	}
	return res.Header, err
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }
