package command

import (
	"net/netip"
	"time"

	"github.com/ironyard/ironyard/central/daemon"
)

// records are the flags of what central records and tells: audit, changes, notifications.
type records struct {
	TrustedProxy      []netip.Prefix `help:"Network of proxies of which is believed who asks (X-Forwarded-For, for the audit) and for what (Forwarded, X-Forwarded-Proto, -Host, -Prefix, for links); may be repeated. Default: nobody's is." env:"CENTRAL_TRUSTED_PROXIES" placeholder:"CIDR" group:"Records"`
	AuditKeep         time.Duration  `help:"For how long lines of the audit are kept; 0: for ever." default:"2160h" env:"CENTRAL_AUDIT_KEEP" group:"Records"`
	NotificationLevel string         `help:"Publish Ironic's notifications from this level on to the bus, as NOTIFY.baremetal.node.create.end and so on: debug, info, warning or error. Default: none; GET /v1/notifications has them all." env:"CENTRAL_NOTIFICATION_LEVEL" placeholder:"LEVEL" group:"Records"`
	KeepChanges       int            `help:"How many changes are kept for clients whose streams (watch, notifications) come back." default:"100000" env:"CENTRAL_KEEP_CHANGES" group:"Records"`
}

func (r *records) set(cfg *daemon.Config) {
	cfg.TrustedProxies, cfg.AuditKeep = r.TrustedProxy, r.AuditKeep
	cfg.NotificationLevel, cfg.KeepChanges = r.NotificationLevel, r.KeepChanges
}
