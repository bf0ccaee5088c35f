package ramdisk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

var (
	sections = regexp.MustCompile(`(?ms)^%(pre|post|onerror)[^\n]*\n(.*?)^%end$`)
	liveimg  = regexp.MustCompile(`(?m)^liveimg --url="([^"]+)"(?: --checksum=([0-9a-f]+))?$`)
	said     = regexp.MustCompile(`"agent_status": "(\w+)"`)
)

// maxKickstart bounds a kickstart, in bytes.
const maxKickstart = 1 << 20

// installs reports whether a kernel with that command line is an installer's.
func installs(commandLine string) bool { return strings.Contains(commandLine, "inst.ks=") }

// Starts reports whether a kernel with that command line starts an agent or an installer. Others are of instances.
func Starts(commandLine string) bool {
	return installs(commandLine) || ByMedium(commandLine) || ByServer(commandLine) || strings.Contains(commandLine, agentapi.ParamAPIURL+"=")
}

// ByMedium reports whether the ramdisk of a command line looks for the rest of it on a second medium.
func ByMedium(commandLine string) bool {
	return strings.Contains(commandLine, agentapi.ParamBootMethod+"="+agentapi.BootMethodMedium)
}

// ByServer reports whether the ramdisk of a command line asks a rackd for the rest of it.
func ByServer(commandLine string) bool {
	return strings.Contains(commandLine, agentapi.ParamBootServer+"=")
}

// install is what an installer does: it follows the kickstart of its command line. It runs the kickstart's own scripts that report, by
// the shell and curl of this host, and reads the image.
func (a *Agent) install(ctx context.Context, commandLine string) (End, error) {
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 10 * time.Second}}
	text, from, err := a.kickstart(ctx, web, commandLine)
	if err != nil {
		return "", err
	}
	live := liveimg.FindStringSubmatch(text)
	if live == nil {
		return "", errors.New("the kickstart names no image")
	}
	scripts := map[string]string{}
	for _, s := range sections.FindAllStringSubmatch(text, -1) {
		if status := said.FindStringSubmatch(s[2]); status != nil {
			scripts[status[1]] = s[2]
		}
	}
	report := func(status string) error {
		if err := a.Faults.Network(); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "sh", "-s")
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(scripts[status], "sleep 10", "sleep 1"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("report %s: %w: %s", status, err, out)
		}
		return nil
	}
	if err := report("start"); err != nil {
		return "", err
	}
	err = a.Disk.Write(ctx, disk.By{Boot: from, Work: from, Command: from}, live[2], func() error { return a.unpack(ctx, web, live[1], live[2]) })
	if err != nil {
		return "", errors.Join(err, report("error"))
	}
	if err := report("end"); err != nil {
		return "", err
	}
	return PowerOff, nil
}

// kickstart returns the first that a URL of the command line gives.
func (a *Agent) kickstart(ctx context.Context, web *http.Client, commandLine string) (text, from string, err error) {
	for word := range strings.FieldsSeq(commandLine) {
		at, is := strings.CutPrefix(word, "inst.ks=")
		if !is {
			continue
		}
		body, err1 := a.read(ctx, web, at, maxKickstart)
		if err1 == nil {
			return string(body), at, nil
		}
		err = errors.Join(err, err1)
	}
	return "", "", err
}

// unpack reads the image at the machine's pace.
func (a *Agent) unpack(ctx context.Context, web *http.Client, at, sum string) error {
	body, err := a.read(ctx, web, at, 1<<30)
	if err != nil {
		return err
	}
	if got := sha256.Sum256(body); sum != "" && hex.EncodeToString(got[:]) != sum {
		return fmt.Errorf("the image has the checksum %x, want %s", got, sum)
	}
	return a.Pace.Sleep(ctx, a.Pace.Grace)
}

func (a *Agent) read(ctx context.Context, web *http.Client, at string, most int64) ([]byte, error) {
	if err := a.Faults.Network(); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", at, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, most))
}
