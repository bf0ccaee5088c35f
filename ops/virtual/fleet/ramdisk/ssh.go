package ramdisk

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/protocol/agentapi"
)

// WriteImage is the program of a simulated ramdisk by which a playbook writes an image. Its arguments are the URL and ALGORITHM:CHECKSUM.
const WriteImage = "write-image"

var writeImage = regexp.MustCompile(WriteImage + ` (\S+) (\w+):([0-9a-f]+)`)

// sshPort is where a playbook looks for the ramdisk's SSH server.
const sshPort = "22"

// sshServer lets everybody in and has one program, WriteImage. What it runs goes on when the caller has gone, as on a real machine.
type sshServer struct {
	run    *run
	config *ssh.ServerConfig
	open   sync.WaitGroup
}

// serveSSH serves until ctx ends; stop waits for the end of all.
func (r *run) serveSSH(ctx context.Context) (stop func(), err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	s := &sshServer{run: r, config: &ssh.ServerConfig{NoClientAuth: true}}
	s.config.AddHostKey(signer)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(r.Listen.Addr().String(), sshPort))
	if err != nil {
		return nil, fmt.Errorf("serving SSH: %w", err)
	}
	s.open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.connection(ctx, c) })
		}
	})
	return func() { l.Close(); s.open.Wait() }, nil
}

func (s *sshServer) connection(ctx context.Context, c net.Conn) {
	defer context.AfterFunc(ctx, func() { c.Close() })()
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return // rackd looks whether there is a server
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		s.open.Go(func() { s.session(ctx, channel, requests) })
	}
}

func (s *sshServer) session(ctx context.Context, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for q := range requests {
		var asked struct{ Command string }
		known := q.Type == "exec" && ssh.Unmarshal(q.Payload, &asked) == nil
		_ = q.Reply(known || q.Type == "pty-req" || q.Type == "env", nil)
		if !known {
			continue
		}
		status := uint32(0)
		if err := s.run.program(ctx, asked.Command); err != nil {
			status = 1
			fmt.Fprintln(channel.Stderr(), err)
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

// program runs what a playbook asks for.
func (r *run) program(ctx context.Context, command string) error {
	args := writeImage.FindStringSubmatch(command)
	if args == nil {
		return fmt.Errorf("this machine is simulated and has no program for %.200q", command)
	}
	r.takeBack()
	by := disk.By{Boot: r.boot, Work: "playbook " + uuid.NewString(), Command: strings.TrimSpace(args[0])}
	info := agentapi.ImageInfo{URLs: []string{args[1]}, HashAlgo: args[2], HashValue: args[3]}
	if info.HashAlgo != "sha256" {
		return errors.New("this machine is simulated and knows sha256 alone")
	}
	return r.Disk.Write(ctx, by, info.HashValue, func() error { return r.transfer(ctx, info, func(int64, int64) {}) })
}
