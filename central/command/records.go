package command

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/central/daemon"
)

// records are the flags of what central records and tells: audit, changes, notifications.
type records struct {
	TrustedProxy      []netip.Prefix `help:"Network of trusted proxies. Their X-Forwarded-For names the caller in the audit; their Forwarded, X-Forwarded-Proto, -Host and -Prefix are used for links. May be repeated. Default: none." env:"CENTRAL_TRUSTED_PROXIES" placeholder:"CIDR" group:"Records"`
	AuditKeep         time.Duration  `help:"Time for which lines of the audit are kept. 0: for ever." default:"2160h" env:"CENTRAL_AUDIT_KEEP" group:"Records"`
	KeepHistory       int            `help:"Number of lines that each node's history keeps; the newest ones stay. 0: all." default:"300" env:"CENTRAL_KEEP_HISTORY" group:"Records"`
	KeepWorks         time.Duration  `help:"Time for which the database keeps works that have ended. 0: for ever. The newest work of a node is always kept." default:"720h" env:"CENTRAL_KEEP_WORKS" group:"Records"`
	NotificationLevel string         `help:"Publish Ironic's notifications of this level and above on the bus, as NOTIFY.baremetal.node.create.end and so on: debug, info, warning or error. Default: none. GET /v1/notifications always has all of them." env:"CENTRAL_NOTIFICATION_LEVEL" placeholder:"LEVEL" group:"Records"`
	KeepChanges       int            `help:"Number of changes that are kept for clients that resume a stream (watch, notifications)." default:"100000" env:"CENTRAL_KEEP_CHANGES" group:"Records"`
}

// set fills in cfg. It refuses numbers that would mean something else there.
func (r *records) set(cfg *daemon.Config) error {
	if r.KeepHistory < 0 || r.KeepWorks < 0 {
		return fmt.Errorf("--keep-history %d, --keep-works %s: neither can be negative; 0 keeps all", r.KeepHistory, r.KeepWorks)
	}
	cfg.TrustedProxies, cfg.AuditKeep = r.TrustedProxy, r.AuditKeep
	cfg.KeepHistory, cfg.KeepWorks = r.KeepHistory, r.KeepWorks
	if r.KeepHistory == 0 {
		cfg.KeepHistory = -1
	}
	if r.KeepWorks == 0 {
		cfg.KeepWorks = -1
	}
	cfg.NotificationLevel, cfg.KeepChanges = r.NotificationLevel, r.KeepChanges
	return nil
}
