// Package embeddedbus runs a NATS server inside the process: a site's with JetStream on
// disk, which is what one machine needs instead of a cluster, or one that a
// configuration file describes.
//
// It may import nothing of the project.
package embeddedbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options of a bus.
type Options struct {
	Dir string // JetStream's files
	// Listen is host:port for other processes; empty: this process only.
	Listen string
	// Token is what other processes must show; it is required with Listen.
	Token string
	Log   *slog.Logger
}

// Bus is a running server and a connection of this process to it.
type Bus struct {
	srv    *server.Server
	failed chan error
}

// Start returns once the server takes connections.
func Start(ctx context.Context, o Options) (*Bus, error) {
	opts := &server.Options{ServerName: "ironyard", JetStream: true, StoreDir: filepath.Join(o.Dir, "jetstream"),
		DontListen: o.Listen == "", NoSigs: true, MaxPayload: 8 << 20,
		// An acknowledged write survives a power cut.
		SyncAlways: true}
	if o.Listen != "" {
		if o.Token == "" {
			return nil, errors.New("a bus that listens needs a token")
		}
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen address of the bus: %w", err)
		}
		opts.Host = host
		if opts.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("listen address of the bus: %w", err)
		}
		if opts.Port == 0 {
			opts.Port = server.RANDOM_PORT
		}
		opts.Authorization = o.Token
	}
	return start(ctx, opts, o.Dir, o.Log)
}

// StartFile is Start for a server that a configuration file of nats-server describes.
func StartFile(ctx context.Context, path string, log *slog.Logger) (*Bus, error) {
	opts, err := server.ProcessConfigFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration of the bus: %w", err)
	}
	opts.NoSigs = true
	return start(ctx, opts, path, log)
}

// start starts a server; where says in errors which one.
func start(ctx context.Context, opts *server.Options, where string, log *slog.Logger) (*Bus, error) {
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start the bus of %s: %w", where, err)
	}
	b := &Bus{srv: srv, failed: make(chan error, 1)}
	srv.SetLoggerV2(logger{log, b.failed}, false, false, false)
	srv.Start()
	wait := 10 * time.Second
	if d, ok := ctx.Deadline(); ok {
		wait = time.Until(d)
	}
	if err := b.ready(wait); err != nil {
		b.Stop()
		return nil, fmt.Errorf("the bus of %s: %w", where, err)
	}
	return b, nil
}

// ready waits until the server takes connections, or says that it cannot go on.
func (b *Bus) ready(wait time.Duration) error {
	for end := time.Now().Add(wait); ; {
		up := b.srv.ReadyForConnections(100 * time.Millisecond)
		select {
		case err := <-b.failed:
			return err
		default:
		}
		if up {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("it was not ready within %s; does another process use the folder or the port?", wait.Round(time.Second))
		}
	}
}

// Failed gets the reason when the server cannot go on: a port that is taken, for instance. A
// server in a process of its own would end.
func (b *Bus) Failed() <-chan error { return b.failed }

// Reload reads the configuration file again. Not everything can change while the
// server runs; its error says what cannot.
func (b *Bus) Reload() error { return b.srv.Reload() }

// URL is where other processes connect, empty when there is no listener.
func (b *Bus) URL() string {
	if b.srv.Addr() == nil {
		return ""
	}
	return "nats://" + b.srv.Addr().String()
}

// Connect returns a connection inside the process; the caller closes it.
func (b *Bus) Connect(name string, token string) (*nats.Conn, error) {
	opts := []nats.Option{nats.InProcessServer(b.srv), nats.Name(name), nats.MaxReconnects(-1)}
	if token != "" {
		opts = append(opts, nats.Token(token))
	}
	return nats.Connect("", opts...)
}

// Stop ends the server and waits until its files are closed.
func (b *Bus) Stop() {
	b.srv.Shutdown()
	b.srv.WaitForShutdown()
}

// logger turns the server's log into the process's.
type logger struct {
	log    *slog.Logger
	failed chan error
}

func (l logger) Noticef(f string, a ...any) { l.log.Debug(fmt.Sprintf(f, a...)) }
func (l logger) Debugf(f string, a ...any)  { l.log.Debug(fmt.Sprintf(f, a...)) }
func (l logger) Tracef(f string, a ...any)  {}
func (l logger) Warnf(f string, a ...any)   { l.log.Warn("bus: " + fmt.Sprintf(f, a...)) }
func (l logger) Errorf(f string, a ...any)  { l.log.Error("bus: " + fmt.Sprintf(f, a...)) }

// Fatalf is what nats-server ends with where it has a process of its own.
func (l logger) Fatalf(f string, a ...any) {
	err := fmt.Errorf(f, a...)
	l.log.Error("bus: " + err.Error())
	select {
	case l.failed <- err:
	default: // the first reason is the one that counts
	}
}
