package ipmisim

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// program is what ipmi_sim runs to read and control the chassis (ipmi_lan(5), chassis_control): it passes a question on through one
// pipe, and prints the answer that comes through the other. The answer's first word is the status that it ends with.
func program(dir string) string {
	return fmt.Sprintf("#!/bin/sh\necho \"$*\" > %[1]s/ask\nread -r status text < %[1]s/answer\n[ -z \"$text\" ] || echo \"$text\"\nexit \"$status\"\n", dir)
}

// pipes are both ends of the pipes, so that neither blocks when it is opened.
type pipes struct {
	ask, answer *os.File
	once        sync.Once
}

func openPipes(dir string) (*pipes, error) {
	p := &pipes{}
	for name, f := range map[string]**os.File{"ask": &p.ask, "answer": &p.answer} {
		path := filepath.Join(dir, name)
		_ = os.Remove(path) // of an earlier life
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, fmt.Errorf("making pipe %s: %w", path, err)
		}
		file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		*f = file
	}
	return p, nil
}

// close ends serve.
func (p *pipes) close() {
	p.once.Do(func() { p.ask.Close(); p.answer.Close() })
}

// serve answers until the pipes are closed.
func (p *pipes) serve(ctx context.Context, c Computer) {
	in := bufio.NewScanner(p.ask)
	for in.Scan() {
		text, err := control(ctx, c, strings.Fields(in.Text()))
		status := 0
		if err != nil {
			status, text = 1, ""
		}
		if _, err := fmt.Fprintf(p.answer, "%d %s\n", status, text); err != nil {
			return
		}
	}
	if in.Err() != nil {
		p.close() // the program's next run fails, and does not wait for an answer
	}
}

// control carries out one run of the program: get, set or check, what, and the value.
func control(ctx context.Context, c Computer, words []string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("%q asks for nothing", words)
	}
	verb, what, value := words[0], words[1], ""
	if len(words) > 2 {
		value = words[2]
	}
	switch verb + " " + what {
	case "check power", "check reset", "check boot", "check shutdown", "check identify":
		return "", nil
	case "get power":
		return "power:" + map[bool]string{true: "1", false: "0"}[c.On()], nil
	case "get boot":
		device, _ := c.BootOverride()
		return "boot:" + map[string]string{"": "none", "network": "pxe", "disk": "default", "media": "cdrom"}[device], nil
	case "set power":
		if value == "1" {
			return "", c.Start(ctx)
		}
		return "", c.Stop(ctx)
	case "set reset":
		return "", c.Reset(ctx)
	case "set shutdown":
		return "", c.Shutdown(ctx)
	case "set identify":
		return "", nil
	case "set boot":
		device, known := map[string]string{"none": "", "pxe": "network", "default": "disk"}[value]
		if !known {
			return "", fmt.Errorf("the machine does not boot from %q", value)
		}
		// The simulator passes on no other flag than the device, and says that it is in force until another is set.
		return "", c.SetBootOverride(device, false)
	}
	return "", fmt.Errorf("unknown: %q", words)
}
