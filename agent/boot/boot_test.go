package boot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ironyard/ironyard/agent/logship"
	"github.com/ironyard/ironyard/agent/session"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "tok-123"

// rackd is a real HTTPS server that knows one node.
type rackd struct {
	*httptest.Server
	pin   string
	image []byte

	mu    sync.Mutex
	token string
	beats chan agentapi.Heartbeat
}

func newRackd(t *testing.T, image []byte) *rackd {
	r := &rackd{image: image, token: token, beats: make(chan agentapi.Heartbeat, 1000)}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	sum := sha256.Sum256(r.Certificate().Raw)
	r.pin = hex.EncodeToString(sum[:])
	return r
}

func (r *rackd) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case q.URL.Path == agentapi.LookupPath:
		r.mu.Lock()
		defer r.mu.Unlock()
		json.NewEncoder(w).Encode(agentapi.LookupReply{Node: agentapi.LookupNode{UUID: "n-1"}, Config: agentapi.LookupConfig{HeartbeatTimeout: 60, AgentToken: r.token}})
		r.token = agentapi.Masked
	case strings.HasPrefix(q.URL.Path, agentapi.HeartbeatPath):
		var h agentapi.Heartbeat
		if err := json.NewDecoder(q.Body).Decode(&h); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.beats <- h
		w.WriteHeader(http.StatusAccepted)
	case q.URL.Path == "/image":
		w.Write(r.image)
	}
}

func (r *rackd) flags(t *testing.T, disk string) Flags {
	return Flags{
		APIURL: r.URL, APIFingerprint: r.pin, Listen: "127.0.0.1:0", MAC: []string{"aa:bb:cc:dd:ee:ff"}, Disk: []string{disk},
		SpoolDir: t.TempDir(), EFIVars: filepath.Join(t.TempDir(), "none"), TokenFile: filepath.Join(t.TempDir(), "run", "token"),
	}
}

func file(t *testing.T, size int) string {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xd7}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func gptImage(t *testing.T) []byte {
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", path)
	cmd.Stdin = strings.NewReader("label: gpt\nsize=4MiB, type=U\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// agent is a running agent as its rackd sees it.
type agent struct {
	t      *testing.T
	r      *rackd
	client *http.Client
	url    string
}

func (r *rackd) meet(t *testing.T) *agent {
	h := <-r.beats
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(h.AgentVerifyCA)) || h.AgentToken != token || h.BootID == "" {
		t.Fatalf("heartbeat %+v", h)
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(tr.CloseIdleConnections)
	return &agent{t, r, &http.Client{Transport: tr}, h.CallbackURL}
}

func (a *agent) command(name string, params any) agentapi.Command {
	a.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		a.t.Fatal(err)
	}
	body, err := json.Marshal(agentapi.CommandRequest{Name: name, Params: raw})
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := a.client.Post(a.url+agentapi.CommandsPath+"?wait=true&agent_token="+token, "application/json", bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var c agentapi.Command
	if err != nil || resp.StatusCode != 200 || json.Unmarshal(text, &c) != nil {
		a.t.Fatalf("%s: %d %s %v", name, resp.StatusCode, text, err)
	}
	return c
}

func TestDeployOnLoopback(t *testing.T) {
	image := gptImage(t)
	r := newRackd(t, image)
	path := file(t, 24<<20)
	type outcome struct {
		end End
		err error
	}
	ended := make(chan outcome, 1)
	flags := r.flags(t, path)
	go func() {
		end, err := Run(t.Context(), flags, slog.New(slog.DiscardHandler), &logship.Shipper{})
		ended <- outcome{end, err}
	}()
	a := r.meet(t)

	for _, c := range []struct {
		name   string
		params any
		want   string
	}{
		{agentapi.CmdGetInventory, nil, path},
		{agentapi.CmdGetCleanSteps, nil, "erase_devices_metadata"},
		{agentapi.CmdGetDeploySteps, nil, "write_image"},
		{agentapi.CmdCollectLogs, nil, "system_logs"},
		{agentapi.CmdSync, nil, "result"},
	} {
		if got := a.command(c.name, c.params); got.Status != agentapi.CommandSucceeded || !strings.Contains(string(got.Result), c.want) {
			t.Errorf("%s: %+v %s", c.name, got.Error, got.Result)
		}
	}
	sum := sha256.Sum256(image)
	info := agentapi.ImageInfo{ID: "i", URLs: []string{r.URL + "/image"}, HashAlgo: "sha256", HashValue: hex.EncodeToString(sum[:]), DiskFormat: "raw", MinDiskBytes: 1}
	if got := a.command(agentapi.CmdInstallBoot, nil); got.Status != agentapi.CommandFailed {
		t.Errorf("boot entry without an image: %+v", got)
	}
	for _, c := range []struct {
		change func(*agentapi.ImageInfo)
		kind   string
	}{
		{func(i *agentapi.ImageInfo) { i.MinDiskBytes = 0 }, "DeviceNotFound"},
		{func(i *agentapi.ImageInfo) { i.HashValue = strings.Repeat("0", 64) }, "ImageChecksumError"},
		{func(i *agentapi.ImageInfo) { i.RootDeviceHints = map[string]any{"colour": "red"} }, "InvalidCommandParamsError"},
		{func(i *agentapi.ImageInfo) { i.ImageType = "partition" }, "InvalidCommandParamsError"},
	} {
		bad := info
		c.change(&bad)
		if bad.MinDiskBytes == 0 && c.kind == "DeviceNotFound" {
			continue // waits for disks to appear; covered in package deploy
		}
		if got := a.command(agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ImageInfo: bad}); got.Error == nil || got.Error.Type != c.kind {
			t.Errorf("%s: %+v", c.kind, got.Error)
		}
	}
	// Once as a step, once as a command: both write.
	step := a.command(agentapi.CmdExecDeployStep, agentapi.StepParams{Step: map[string]any{"step": "write_image", "interface": "deploy", "args": map[string]any{"image_info": info}}})
	if step.Error != nil || !strings.Contains(string(step.Result), `"deploy_step"`) {
		t.Errorf("write_image: %+v %s", step.Error, step.Result)
	}
	if got := a.command(agentapi.CmdPrepareImage, agentapi.PrepareImageParams{ImageInfo: info}); got.Error != nil {
		t.Fatalf("prepare_image: %+v", got.Error)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(data[1<<20:7<<20], image[1<<20:7<<20]) || string(data[len(data)-512:][:8]) != "EFI PART" {
		t.Errorf("the disk does not hold the image with its backup table at the end: %v", err)
	}
	if got := a.command(agentapi.CmdInstallBoot, nil); got.Error != nil || !strings.Contains(string(got.Result), "BIOS") {
		t.Errorf("install_bootloader: %+v", got.Error)
	}
	if got := a.command(agentapi.CmdInstallBoot, map[string]string{"target_boot_mode": "uefi"}); got.Error == nil || !strings.Contains(got.Error.Details, "boot mode uefi") {
		t.Errorf("install_bootloader where UEFI is asked for: %+v, %s", got.Error, got.Result)
	}
	for _, name := range []string{"erase_devices", "erase_devices_metadata"} {
		keeping := func(hint string) agentapi.StepParams {
			return agentapi.StepParams{Step: map[string]any{"step": name, "interface": "deploy"},
				Node: map[string]any{"properties": map[string]any{"skip_block_devices": []any{map[string]any{hint: path}}}}}
		}
		if got := a.command(agentapi.CmdExecCleanStep, keeping("name")); got.Error != nil {
			t.Errorf("%s of all but the only disk: %+v", name, got.Error)
		}
		if got := a.command(agentapi.CmdExecCleanStep, keeping("colour")); got.Error == nil || got.Error.Type != "InvalidCommandParamsError" {
			t.Errorf("%s of who knows which disks: %+v", name, got.Error)
		}
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Errorf("a disk that is to be kept was written to: %v", err)
	}
	if got := a.command(agentapi.CmdExecCleanStep, agentapi.StepParams{Step: map[string]any{"step": "erase_devices", "interface": "deploy"}}); got.Error != nil {
		t.Errorf("erase_devices: %+v", got.Error)
	}
	if data, err = os.ReadFile(path); err != nil || len(bytes.Trim(data, "\x00")) != 0 {
		t.Errorf("the disk is not erased: %v", err)
	}
	if got := a.command(agentapi.CmdRunImage, nil); got.Error != nil {
		t.Errorf("run_image: %+v", got.Error)
	}
	if o := <-ended; o.end != Reboot || o.err != nil {
		t.Errorf("ended with %v, %v", o.end, o.err)
	}

	// An agent that is started again in the same boot still has its token; another
	// boot has not.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		end, err := Run(ctx, flags, slog.New(slog.DiscardHandler), &logship.Shipper{})
		ended <- outcome{end, err}
	}()
	for h := range r.beats {
		if h.Command == nil && h.AgentToken == token {
			break
		}
	}
	cancel()
	if o := <-ended; o.end != Nothing || o.err != nil {
		t.Errorf("stopped with %v, %v", o.end, o.err)
	}
	flags.TokenFile = ""
	if _, err := Run(t.Context(), flags, slog.New(slog.DiscardHandler), &logship.Shipper{}); !errors.Is(err, session.ErrNoToken) || !strings.Contains(err.Error(), "abort") {
		t.Errorf("masked token: %v", err)
	}
}

func TestFlags(t *testing.T) {
	if _, err := parse([]string{"--api-url", "https://x"}); err == nil || !strings.Contains(err.Error(), "--disk") {
		t.Errorf("without disks: %v", err)
	}
	f, err := parse([]string{"--api-url", "https://x", "--disk", "a", "--disk", "b"})
	if err != nil || len(f.Disk) != 2 || f.Listen != ":9999" {
		t.Errorf("%+v, %v", f, err)
	}
	var k Flags
	if err := k.kernel(fmt.Sprintf("%s=https://a,https://b %s=%s BOOTIF=aa:bb:cc:dd:ee:ff", agentapi.ParamAPIURL, agentapi.ParamAPIFingerprint, strings.Repeat("ab", 32))); err != nil || k.APIURL != "https://a,https://b" || k.BootMAC == "" {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := advertised("nonsense", ""); err == nil {
		t.Error("--advertise nonsense accepted")
	}
}
