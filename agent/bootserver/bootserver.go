// Package bootserver asks rackds for the parameters of this boot, where the kernel's command line could not bring them: firmware
// has started the ramdisk as one signed program, which is the same for all machines.
//
// It may import protocol/agentapi and agent/cmdline. Invariants: a boot is told its parameters once. A restarted agent goes on with
// them, so that it is an agent of the same boot. No answer changes whom a program believes that names a certificate. What does not
// name an API and its certificate is no answer.
package bootserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ironyard/ironyard/agent/cmdline"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// The pace of questions.
const (
	answerWithin = 10 * time.Second
	firstPause   = time.Second
	maxPause     = 15 * time.Second
)

// Place is a rackd's web server and the MAC address by which it knows this machine.
type Place struct{ Base, MAC string }

// IsParameters reports whether a boot file that DHCP names is the parameters of a boot.
func IsParameters(name string) bool {
	u, err := url.Parse(name)
	return err == nil && u.Scheme == "http" && u.Host != "" && u.User == nil && u.Path == agentapi.ParametersPath
}

// BaseOf returns the web server of a boot file for which IsParameters holds.
func BaseOf(name string) string {
	base, _, _ := strings.Cut(name, agentapi.ParametersPath)
	return base
}

// Asker asks for parameters.
type Asker struct {
	Log *slog.Logger
	// Places returns where to ask. It is called before each round, and may take a while.
	Places func(ctx context.Context) []Place
	// Fingerprint is the only one that an answer may name; empty: any.
	Fingerprint string
	// For bounds all of it.
	For time.Duration
	// File keeps the answer for a restarted agent.
	File string
	// Transport of the questions; nil: the default one.
	Transport http.RoundTripper
}

// Parameters returns the words that a boot script would have put on the kernel's command line.
func (a Asker) Parameters(ctx context.Context) (string, error) {
	kept, err := os.ReadFile(a.File)
	if err == nil {
		return string(kept), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the parameters of this boot: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.For, fmt.Errorf("no rackd told this machine the parameters of its boot within %s: check that a rackd serves or overhears DHCP here, or build the program with --boot-server", a.For))
	defer cancel()
	pause := firstPause
	for {
		places := a.Places(ctx)
		for _, p := range places {
			words, err := a.ask(ctx, p)
			if err == nil {
				return words, a.keep(words)
			}
			a.Log.Warn("a rackd tells no parameters for this boot", "at", p.Base, "mac", p.MAC, "error", err)
		}
		if len(places) == 0 {
			a.Log.Warn("nothing names a rackd to ask for the parameters of this boot")
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1)) // a rack that was switched on at once does not ask at once
		select {
		case <-ctx.Done():
			timer.Stop()
			return "", context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(pause*2, maxPause)
	}
}

// keep makes the answer last until the machine starts again.
func (a Asker) keep(words string) error {
	err := os.MkdirAll(filepath.Dir(a.File), 0o700)
	if err == nil {
		err = os.WriteFile(a.File, []byte(words), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keeping the parameters of this boot: %w", err)
	}
	return nil
}

func (a Asker) ask(ctx context.Context, p Place) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	at := p.Base + agentapi.ParametersPath + "?" + agentapi.ParametersMAC + "=" + url.QueryEscape(p.MAC)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: a.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, cmdline.MaxLine+1))
	if err != nil {
		return "", err
	}
	words := strings.TrimSpace(string(raw))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.200q", resp.Status, words)
	}
	said, err := cmdline.Parse(words)
	switch {
	case err != nil:
		return "", err
	case len(said.APIURLs) == 0 || said.Fingerprint == "":
		return "", errors.New("its answer names no API or no certificate")
	case a.Fingerprint != "" && said.Fingerprint != a.Fingerprint:
		return "", fmt.Errorf("its answer names certificate %s, and this program was made for %s", said.Fingerprint, a.Fingerprint)
	}
	return words, nil
}

// Everywhere is every web server with every MAC address.
func Everywhere(bases, macs []string) (list []Place) {
	for _, b := range bases {
		for _, m := range slices.Compact(slices.Sorted(slices.Values(macs))) {
			list = append(list, Place{b, m})
		}
	}
	return list
}
