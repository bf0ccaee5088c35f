package ramdisk

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ironyard/ironyard/ops/debkernel"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// testRackd is what the booted agent talks to.
type testRackd struct {
	t    *testing.T
	file []byte // the image as served

	mu    sync.Mutex
	beats []agentapi.Heartbeat
	logs  bytes.Buffer
	news  chan struct{}
}

func (r *testRackd) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(io.LimitReader(q.Body, 8<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case q.URL.Path == agentapi.LookupPath && strings.Contains(q.URL.Query().Get("addresses"), bootMAC):
		json.NewEncoder(w).Encode(agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "node-1"}, Config: agentapi.LookupConfig{HeartbeatTimeout: 300, AgentToken: "s3cret-token", AgentTokenRequired: true}})
	case q.URL.Path == agentapi.HeartbeatPath+"node-1":
		var h agentapi.Heartbeat
		if err := json.Unmarshal(body, &h); err != nil || h.AgentToken != "s3cret-token" {
			http.Error(w, "bad heartbeat", http.StatusBadRequest)
			return
		}
		r.beats = append(r.beats, h)
		close(r.news)
		r.news = make(chan struct{})
		w.WriteHeader(http.StatusAccepted)
	case q.URL.Path == agentapi.LogPath+"node-1":
		r.logs.Write(body)
	case q.URL.Path == "/image":
		http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(r.file))
	default:
		http.NotFound(w, q)
	}
}

// await returns the first heartbeat that is like that.
func (r *testRackd) await(ctx context.Context, what string, like func(agentapi.Heartbeat) bool) agentapi.Heartbeat {
	r.t.Helper()
	for seen := 0; ; {
		r.mu.Lock()
		news := r.news
		for ; seen < len(r.beats); seen++ {
			if like(r.beats[seen]) {
				h := r.beats[seen]
				r.mu.Unlock()
				return h
			}
		}
		r.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			r.t.Fatalf("no heartbeat with %s: %v", what, context.Cause(ctx))
		}
	}
}

const (
	bootMAC  = "52:54:00:12:34:56"
	diskSize = 192 << 20
)

// gptImage is a disk image with an EFI system partition, mostly zeros.
func gptImage(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=40MiB, type=U\nsize=8MiB, type=L\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rand.NewChaCha8([32]byte{7}).Read(data[5<<20 : 20<<20])
	return data
}

// TestBoot boots the ramdisk in a virtual machine, by BIOS and by UEFI, and deploys.
// It takes most of a minute: set IRONYARD_E2E=1.
func TestBoot(t *testing.T) {
	if os.Getenv("IRONYARD_E2E") != "1" {
		t.Skip("boots the ramdisk in QEMU; set IRONYARD_E2E=1")
	}
	image := gptImage(t)
	for name, m := range map[string]hardware{
		"bios virtual": {"bios", debkernel.Cloud, "virtio-blk-pci", "virtio-net-pci"},
		"uefi virtual": {"uefi", debkernel.Cloud, "virtio-blk-pci", "virtio-net-pci"},
		// The kernel and drivers of real machines: SATA and an Intel card.
		"bios real": {"bios", debkernel.Generic, "ide-hd", "e1000e"},
	} {
		t.Run(name, func(t *testing.T) {
			built, err := Build(t.Context(), Options{KernelPackage: m.kernel, OutDir: t.TempDir(), CacheDir: cache(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("kernel %d bytes, initramfs %d bytes, %d modules", built.KernelBytes, built.InitramfsBytes, built.Modules)
			bootAndDeploy(t, built, m, image)
		})
	}
}

// hardware is a virtual machine: how it boots, which kernel, and QEMU's names for
// its disk and network card.
type hardware struct{ mode, kernel, disk, nic string }

func bootAndDeploy(t *testing.T, built Result, m hardware, image []byte) {
	mode := m.mode
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	rackd := &testRackd{t: t, file: z.EncodeAll(image, nil), news: make(chan struct{})}
	server := httptest.NewTLSServer(rackd)
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	pin := sha256.Sum256(server.Certificate().Raw)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, bytes.Repeat([]byte{0xd7}, diskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	agentPort := freePort(t)
	line := fmt.Sprintf("console=ttyS0 loglevel=5 panic=10 %s=https://10.0.2.2:%d %s=%x BOOTIF=01-%s", agentapi.ParamAPIURL, port, agentapi.ParamAPIFingerprint, pin, strings.ReplaceAll(bootMAC, ":", "-"))
	began := time.Now()
	machine := start(t, m, built, line, disk, agentPort)

	first := rackd.await(ctx, "anything", func(agentapi.Heartbeat) bool { return true })
	t.Logf("first heartbeat after %.1f s, callback %s", time.Since(began).Seconds(), first.CallbackURL)
	api := agentClient(t, first, agentPort)

	api.run(ctx, rackd, agentapi.CmdGetInventory, nil)
	var inv agentapi.Inventory
	if err := json.Unmarshal(api.last.Result, &inv); err != nil || inv.Boot.CurrentBootMode != mode || len(inv.Disks) != 1 || inv.Disks[0].Size != diskSize || len(inv.Interfaces) != 1 || inv.Interfaces[0].MACAddress != bootMAC {
		t.Errorf("inventory %s, %v", api.last.Result, err)
	}
	drive := bytes.Repeat([]byte("config drive "), 1000)
	sum := sha256.Sum256(rackd.file)
	params := agentapi.PrepareImageParams{ConfigDrive: gzip64(drive), ImageInfo: agentapi.ImageInfo{
		ID: "test", URLs: []string{fmt.Sprintf("https://10.0.2.2:%d/image", port)}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]),
		DiskFormat: "raw", Compression: "zstd", ImageType: "whole-disk", BootMode: mode, MinDiskBytes: 1 << 20,
	}}
	api.run(ctx, rackd, agentapi.CmdPrepareImage, params)
	done := api.last
	var result agentapi.PrepareImageResult
	if err := json.Unmarshal(done.Result, &result); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: wrote %d bytes to %s in %.1f s, %.0f MB/s; %.1f s after power on", mode, result.Written.DoneBytes, result.RootDevice, result.Written.Seconds, result.Written.MBPerSec, time.Since(began).Seconds())
	api.run(ctx, rackd, agentapi.CmdInstallBoot, nil)
	t.Logf("boot entry: %s", api.last.Result)
	if mode == "uefi" && !bytes.Contains(api.last.Result, []byte("starts partition 1")) {
		t.Errorf("no boot entry: %s", api.last.Result)
	}
	if c := api.post(ctx, agentapi.CmdRunImage, "go", nil); c.Error != nil {
		t.Fatalf("run_image: %+v", c.Error)
	}
	// The card is busy to the last: a driver that still sends may hang a machine that
	// goes down.
	bother(ctx, t, agentPort, machine)
	select {
	case <-machine: // QEMU ends at the reboot
	case <-ctx.Done():
		t.Fatal("the machine does not reboot")
	}
	t.Logf("reboot %.1f s after power on", time.Since(began).Seconds())
	checkDisk(t, disk, image, drive)
	rackd.mu.Lock()
	defer rackd.mu.Unlock()
	if logs := rackd.logs.String(); !strings.Contains(logs, "image written") || strings.Contains(logs, "s3cret") {
		t.Errorf("logs at the rackd:\n%s", logs)
	}
}

// bother connects to the agent without pause until the machine has ended.
func bother(ctx context.Context, t *testing.T, agentPort int, machine <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			d := net.Dialer{Timeout: 200 * time.Millisecond}
			for ctx.Err() == nil {
				if c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", agentPort)); err == nil {
					c.Write([]byte("not TLS, to be answered with an alert\n"))
					c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
					io.Copy(io.Discard, c)
					c.Close()
				}
			}
		})
	}
	wg.Go(func() {
		select {
		case <-machine:
		case <-ctx.Done():
		}
		cancel()
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// checkDisk compares the disk with the image, except for the tables that had to move.
func checkDisk(t *testing.T, path string, image, drive []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[1<<20:63<<20], image[1<<20:63<<20]) {
		t.Error("the disk does not hold the image")
	}
	out, err := exec.Command("sfdisk", "--dump", path).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(`name="config-2"`)) {
		t.Errorf("sfdisk: %v: %s", err, out)
	}
	if out, err := exec.Command("sfdisk", "--verify", path).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("No errors")) {
		t.Errorf("sfdisk --verify: %v: %s", err, out)
	}
	if n := bytes.Index(got[64<<20:], drive); n < 0 {
		t.Error("the config drive is not on the disk")
	}
}

// start runs QEMU; the channel is closed when it has ended.
func start(t *testing.T, m hardware, built Result, line, disk string, agentPort int) <-chan struct{} {
	t.Helper()
	serial := filepath.Join(t.TempDir(), "serial")
	args := []string{"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max", "-smp", "1", "-m", "512",
		"-kernel", built.Kernel, "-initrd", built.Initramfs, "-append", line, "-serial", "file:" + serial,
		"-drive", "if=none,id=d,format=raw,cache=unsafe,discard=unmap,file=" + disk, "-device", m.disk + ",drive=d,serial=DISK1",
		"-netdev", fmt.Sprintf("user,id=n,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:9999", agentPort), "-device", m.nic + ",netdev=n,romfile=,mac=" + bootMAC}
	if m.mode == "uefi" {
		vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
		if err != nil {
			t.Fatalf("firmware (Debian package ovmf): %v", err)
		}
		mine := filepath.Join(t.TempDir(), "vars")
		if err := os.WriteFile(mine, vars, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,unit=1,format=raw,file="+mine)
	}
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatalf("qemu (Debian package qemu-system-x86): %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // killed at the end of a failed test
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		console, _ := os.ReadFile(serial)
		if t.Failed() || testing.Verbose() {
			t.Logf("qemu: %s\nconsole:\n%s", complaint.String(), console)
		}
	})
	return ended
}

// apiClient speaks to the agent in the machine.
type apiClient struct {
	t    *testing.T
	http *http.Client
	base string
	last agentapi.Command
}

func agentClient(t *testing.T, h agentapi.Heartbeat, port int) *apiClient {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(h.AgentVerifyCA)) {
		t.Fatal("the heartbeat brings no certificate")
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "10.0.2.15"}}
	t.Cleanup(tr.CloseIdleConnections)
	return &apiClient{t: t, http: &http.Client{Transport: tr, Timeout: time.Minute}, base: fmt.Sprintf("https://127.0.0.1:%d", port)}
}

func (c *apiClient) post(ctx context.Context, name, id string, params any) agentapi.Command {
	c.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := json.Marshal(agentapi.CommandRequest{Name: name, Params: raw, ID: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ask(ctx, name, http.MethodPost, "?wait=false&agent_token=s3cret-token", body)
}

// ask sends a request about commands, whose answer is one.
func (c *apiClient) ask(ctx context.Context, name, method, at string, body []byte) agentapi.Command {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.base+agentapi.CommandsPath+at, bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &c.last)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %d %s %v", name, resp.StatusCode, text, err)
	}
	return c.last
}

// run starts a command, learns its end by heartbeat, which says nothing of its result, and asks for that.
func (c *apiClient) run(ctx context.Context, r *testRackd, name string, params any) {
	c.t.Helper()
	id := "run-" + name
	c.post(ctx, name, id, params)
	r.await(ctx, "the end of "+name, func(h agentapi.Heartbeat) bool {
		return h.Command != nil && h.Command.ID == id && h.Command.Status != agentapi.CommandRunning
	})
	c.last = agentapi.Command{}
	if c.ask(ctx, name, http.MethodGet, id+"?agent_token=s3cret-token", nil); c.last.Status != agentapi.CommandSucceeded {
		c.t.Fatalf("%s: %+v", name, c.last.Error)
	}
}

func gzip64(data []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
