package vbmc

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Boot devices of a Computer. Media is the CD drive, and Stick the drive of a StickDrive. HTTP is for an HTTPBooter.
const (
	Network = "network"
	Disk    = "disk"
	Media   = "media"
	Stick   = "stick"
	HTTP    = "http"
)

// Computer is what the BMC controls; abilities.go has what it may be able to do beyond
// this. It is used from several goroutines at once.
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
	// BootOverride is Network, Disk, Media, Stick, HTTP or empty, and whether it is for one boot only.
	BootOverride() (device string, once bool)
	SetBootOverride(device string, once bool) error
}

// Config describes a BMC and the system it shows.
type Config struct {
	Username, Password string
	// UEFI is the system's boot mode: UEFI, or else Legacy.
	UEFI bool
	// Diskless is a system without any disk: it has no such boot source.
	Diskless bool
	// What the system says about itself.
	Name, UUID, Manufacturer, Product, Serial, MAC string
	MemoryMiB                                      int
	// NoCD: the BMC has no virtual drive of a CD.
	NoCD bool
	// Log may be nil.
	Log *slog.Logger
	// Now is the clock of the journal and of sessions; nil is time.Now.
	Now func() time.Time
	// Certificate of the service; nil: one of its own.
	Certificate *tls.Certificate
	// Dial connects from the BMC to servers of images, whose certificates its virtual drives may then verify; nil: they verify none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Begin is told of each write before its effect, and returns what is told the
	// answer's status. It is called from several goroutines at once. Nil: the BMC's
	// own Journal, which else stays empty.
	Begin func(Write) (end func(status int))
}

// BMC is one service. Safe for concurrent use.
type BMC struct {
	// Faults are the troubles that a test asks for.
	Faults Faults
	// Journal is what was written to the BMC.
	Journal Journal

	cfg           Config
	computer      Computer
	cert          *tls.Certificate
	sessions      sessions
	subscriptions subscriptions
	firmware      firmware
	tasks         tasks
	lives         lives
	callers       callers
	flavour       atomic.Int32 // a Flavour
	uefi          uefiBoot     // of an iLO

	// mu makes a PATCH's check of the ETag and its write one step.
	mu sync.Mutex

	mediumMu    sync.Mutex
	trusts      map[string]trust // by a drive's path
	deafTrust   bool             // whether a drive is to verify is taken and not kept
	hollowImage string           // the image that the virtual CD drive shows and does not have (Faults.Hollow)
	medium      string           // the image in the virtual CD drive of a computer that is no MediaDrive
}

// New makes a BMC.
func New(cfg Config, computer Computer) (*BMC, error) {
	b := &BMC{cfg: cfg, computer: computer, cert: cfg.Certificate}
	if b.cert == nil {
		cert, err := SelfSigned(cfg.Name)
		if err != nil {
			return nil, fmt.Errorf("making certificate of BMC %s: %w", cfg.Name, err)
		}
		b.cert = &cert
	}
	if cfg.Log == nil {
		b.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		b.cfg.Now = time.Now
	}
	if cfg.Begin == nil {
		b.cfg.Begin = b.Journal.begin
	}
	return b, nil
}
