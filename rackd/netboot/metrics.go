package netboot

import (
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ironyard/ironyard/rackd/strangers"
)

// Metrics counts what netboot does. A nil Metrics counts nothing; all methods are
// safe for concurrent use.
type Metrics struct {
	dhcp, dhcpDropped *prometheus.CounterVec
	leases, leases6   prometheus.Gauge
	taken             taken
	scripts, files    *prometheus.CounterVec
	bytes, routers    *prometheus.CounterVec
	strangers         *prometheus.CounterVec
}

// NewMetrics registers netboot's metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		dhcp: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_dhcp_replies_total",
			Help: "DHCP replies sent, by message type and kind of client."}, []string{"type", "client"}),
		dhcpDropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_dhcp_dropped_total",
			Help: "DHCP packets without an answer, by reason (unreadable, unknown, relay: of another network, sender: in another network, address: of another server and not believed, program: none for its firmware, silent, busy, error)."}, []string{"reason"}),
		leases: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ironyard_rackd_dhcp_leases",
			Help: "Addresses of the DHCP ranges that are taken or set aside."}),
		leases6: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ironyard_rackd_dhcp6_leases",
			Help: "Addresses of the DHCPv6 ranges that are taken or set aside."}),
		scripts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_boot_scripts_total",
			Help: "Boot scripts generated, by order (ramdisk, instance, instance-image, installer, volume, local-disk, firmware-volume, later, refuse, unknown; foreign: asked from another address than the machine was given; unheard: before its address was known)."}, []string{"order"}),
		files: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_boot_files_total",
			Help: "Boot files asked for, by transport (http, tftp, medium) and result (ok, missing, busy, unanswered, failed)."}, []string{"via", "result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_boot_file_bytes_total",
			Help: "Bytes of boot files sent, by transport (http, tftp, medium)."}, []string{"via"}),
		routers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_router_answers_total",
			Help: "Answers to the IPv6 router solicitations of machines that boot, by result (sent, busy, failed)."}, []string{"result"}),
		strangers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ironyard_rackd_strangers_refused_total",
			Help: "What a part of the strangers' budget kept out. Part: connections, bodies (of heartbeats), log (of agents), addresses (of DHCP); lines: lines that rackd did not log."}, []string{"part"}),
	}
	reg.MustRegister(m.dhcp, m.dhcpDropped, m.leases, m.leases6, m.scripts, m.files, m.bytes, m.routers, m.strangers)
	return m
}

// DHCPReply counts a reply.
func (m *Metrics) DHCPReply(kind, client string) {
	if m != nil {
		m.dhcp.WithLabelValues(kind, client).Inc()
	}
}

// DHCPDropped counts a packet without an answer.
func (m *Metrics) DHCPDropped(reason string) {
	if m != nil {
		m.dhcpDropped.WithLabelValues(reason).Inc()
	}
}

// Leases sets the number of addresses taken of the server at an address. There is one for each interface.
func (m *Metrics) Leases(server netip.Addr, n int) {
	if m != nil {
		m.leases.Set(float64(m.taken.all(server, n)))
	}
}

// taken counts addresses by server.
type taken struct {
	mu sync.Mutex
	by map[netip.Addr]int
}

// all notes how many a server has, and returns how many all have.
func (t *taken) all(server netip.Addr, n int) (sum int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = map[netip.Addr]int{}
	}
	t.by[server] = n
	for _, each := range t.by {
		sum += each
	}
	return sum
}

// Leases6 sets the number of IPv6 addresses taken.
func (m *Metrics) Leases6(n int) {
	if m != nil {
		m.leases6.Set(float64(n))
	}
}

// Script counts a script.
func (m *Metrics) Script(order string) {
	if m != nil {
		m.scripts.WithLabelValues(order).Inc()
	}
}

// File counts a boot file asked for, of which n bytes were sent.
func (m *Metrics) File(via, result string, n int64) {
	if m != nil {
		m.files.WithLabelValues(via, result).Inc()
		m.bytes.WithLabelValues(via).Add(float64(n))
	}
}

// RouterAnswer counts an answer to a router solicitation.
func (m *Metrics) RouterAnswer(result string) {
	if m != nil {
		m.routers.WithLabelValues(result).Inc()
	}
}

// StrangerRefused counts what a part of the strangers' budget kept out.
func (m *Metrics) StrangerRefused(part strangers.Part) {
	if m != nil {
		m.strangers.WithLabelValues(string(part)).Inc()
	}
}
