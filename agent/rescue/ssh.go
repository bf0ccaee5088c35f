package rescue

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// ServeSSH answers on l until ctx ends, and then ends all sessions.
func (s *Server) ServeSSH(ctx context.Context, l net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("rescue: cannot accept a connection", "error", err)
			if wait(ctx, time.Second) != nil {
				return
			}
			continue
		}
		source := sourceOf(c.RemoteAddr())
		if !s.gate.enter(source) {
			c.Close()
			continue
		}
		open.Go(func() { s.connection(ctx, c, source) })
	}
}

// config is that of one connection.
func (s *Server) config(ctx context.Context) *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		MaxAuthTries: maxTries, ServerVersion: "SSH-2.0-Ironyard",
		PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if s.allows(c.User(), string(password)) {
				return nil, nil
			}
			s.log.Warn("rescue: a login by SSH was refused", "from", c.RemoteAddr().String())
			_ = wait(ctx, s.pause)
			return nil, errors.New("wrong user or password")
		},
	}
	config.AddHostKey(s.signer)
	return config
}

func (s *Server) connection(ctx context.Context, c net.Conn, source string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_ = c.SetDeadline(time.Now().Add(graceTime))
	conn, channels, requests, err := ssh.NewServerConn(c, s.config(ctx))
	s.gate.leave(source, err == nil)
	if err != nil {
		return
	}
	defer s.gate.out()
	_ = c.SetDeadline(time.Time{})
	s.log.Info("rescue: logged in by SSH", "from", conn.RemoteAddr().String())
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel() // first: it ends the sessions
	sessions.Go(func() { ssh.DiscardRequests(requests) })
	places := make(chan struct{}, maxSessions)
	for ch := range channels {
		if ch.ChannelType() != "session" {
			_ = ch.Reject(ssh.Prohibited, "only sessions are allowed")
			continue
		}
		select {
		case places <- struct{}{}:
		default:
			_ = ch.Reject(ssh.ResourceShortage, "too many sessions")
			continue
		}
		channel, asked, err := ch.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() {
			defer func() { <-places }()
			s.session(ctx, channel, asked)
		})
	}
}

// wait waits for d, or returns the end of ctx.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
