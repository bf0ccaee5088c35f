package vbmc

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Boot devices of a Computer.
const (
	Network = "network"
	Disk    = "disk"
)

// Computer is what the BMC controls. It is used from several goroutines at once.
type Computer interface {
	// On tells whether it is on.
	On() bool
	// Start and Stop are repeatable; Stop and Reset do not ask the guest.
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Reset(ctx context.Context) error
	// Shutdown and Restart press the power button and return at once.
	Shutdown(ctx context.Context) error
	Restart(ctx context.Context) error
	Interrupt(ctx context.Context) error
	// BootOverride is Network, Disk or empty, and whether it is for one boot only.
	BootOverride() (device string, once bool)
	SetBootOverride(device string, once bool) error
}

// Config describes a BMC and the system it shows.
type Config struct {
	Username, Password string
	// UEFI is the system's boot mode: UEFI, or else Legacy.
	UEFI bool
	// What the system says about itself.
	Name, UUID, Manufacturer, Product, Serial, MAC string
	MemoryMiB                                      int
	// Log may be nil.
	Log *slog.Logger
	// Now is the clock of the journal and of sessions; nil is time.Now.
	Now func() time.Time
}

// BMC is one service. Safe for concurrent use.
type BMC struct {
	// Faults are the troubles that a test asks for.
	Faults Faults
	// Journal is what was written to the BMC.
	Journal Journal

	cfg      Config
	computer Computer
	cert     tls.Certificate
	sessions sessions
	handler  http.Handler

	// mu makes a PATCH's check of the ETag and its write one step.
	mu sync.Mutex
}

// New makes a BMC with a certificate of its own.
func New(cfg Config, computer Computer) (*BMC, error) {
	cert, err := selfSigned(cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("making certificate of BMC %s: %w", cfg.Name, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	b := &BMC{cfg: cfg, computer: computer, cert: cert}
	b.sessions.live = map[string]session{}
	b.handler = b.routes()
	return b, nil
}

// Serve answers on l, which it closes, until ctx ends.
func (b *BMC) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           b.Faults.wrap(ctx, b.Journal.wrap(b.cfg.Now, b.handler)),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{b.cert}},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(discardTLSNoise{b.cfg.Log}, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	err := server.ServeTLS(refusing{l, &b.Faults}, "", "")
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("BMC %s on %s: %w", b.cfg.Name, l.Addr(), err)
}

// discardTLSNoise turns the server's complaints about broken connections, which
// every fault causes, into debug messages.
type discardTLSNoise struct{ log *slog.Logger }

func (d discardTLSNoise) Write(p []byte) (int, error) {
	d.log.Debug("HTTP server", "said", string(p))
	return len(p), nil
}
