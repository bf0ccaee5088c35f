package scenario

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/lab"
	"github.com/ironyard/ironyard/ops/virtual/netns"
)

// bondMAC is what network_data gives the bond: the address of none of the machine's cards.
const bondMAC = "52:54:00:b0:d0:01"

// A machine boots from a medium, with a bond of two cards and a VLAN on it as its only network. The switch is Open vSwitch. It takes the
// cables for one link because the machine speaks LACP on both, and rackd is in the VLAN.
func TestDeployByVirtualMediaOverABond(t *testing.T) {
	needsTime(t)
	ctx := limit(t, 10*time.Minute)
	m, err := theRack.Machine("bond-0")
	if err != nil {
		t.Fatal(err)
	}
	data, at := static(t, m.MAC)
	second := m.FurtherCards[0]
	data["links"] = []any{
		map[string]any{"id": "v", "type": "vlan", "vlan_link": "b", "vlan_id": 100, "vlan_mac_address": bondMAC, "mtu": 1400},
		map[string]any{"id": "b", "type": "bond", "bond_mode": "802.3ad", "bond_links": []string{"l", "k"}, "bond_miimon": 100, "bond_lacp_rate": "fast",
			"bond_xmit_hash_policy": "layer3+4", "ethernet_mac_address": bondMAC},
		map[string]any{"id": "l", "type": "phy", "ethernet_mac_address": m.MAC},
		map[string]any{"id": "k", "type": "phy", "ethernet_mac_address": second.MAC}}
	network, _ := data["networks"].([]any)[0].(map[string]any)
	network["link"] = "v"
	sw := newSwitch(ctx, t, m, 100)

	console := consoleFromNow(t, m.Name)
	watched := make(chan string, 1)
	go func() { watched <- sw.bundled(ctx) }()
	id := byMediumWith(ctx, t, m.Name, "redfish-virtual-media", data, at)
	select {
	case said := <-watched:
		t.Logf("the switch, while the ramdisk ran:\n%s", said)
		if !strings.Contains(said, "partner sys_id: "+bondMAC) || strings.Count(said, "may_enable: true") != 2 {
			t.Error("the switch has not taken both cables for one link of the bond's")
		}
	case <-ctx.Done():
		t.Fatal("the switch has seen no LACP")
	}
	// The kernel's module has made no bond of its own, which would have that name.
	if _, err := console.Wait(ctx, regexp.MustCompile(`network is up, as network_data says" interface=bond0\.100 id=v address=`+regexp.QuoteMeta(at.String())+`/24 mtu=1400`)); err != nil {
		t.Errorf("the agent does not say that the VLAN is up: %v", err)
	}
	undeployed(ctx, t, id)
	empty(t, m.Name)
}

// ovs is Open vSwitch in the rack's network, all of it in user space.
type ovs struct {
	t   *testing.T
	ns  *netns.Namespace
	dir string
}

// newSwitch plugs a machine's two cables into a switch, which passes frames of one VLAN alone, and to the rack without its tag.
func newSwitch(ctx context.Context, t *testing.T, m lab.Machine, vlan int) ovs {
	t.Helper()
	ns, err := theRack.Lab.Namespace()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ovs") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := ovs{t, ns, dir}
	const schema = "/usr/share/openvswitch/vswitch.ovsschema"
	s.must(exec.CommandContext(ctx, "ovsdb-tool", "create", filepath.Join(dir, "db"), schema))
	s.daemon(ctx, "ovsdb-server", filepath.Join(dir, "db"), "--remote=punix:"+filepath.Join(dir, "db.sock"), "--unixctl="+filepath.Join(dir, "db.ctl"), "--pidfile="+filepath.Join(dir, "db.pid"))
	s.vsctl(ctx, "--retry", "--no-wait", "init")
	s.daemon(ctx, "ovs-vswitchd", "unix:"+filepath.Join(dir, "db.sock"), "--unixctl="+filepath.Join(dir, "sw.ctl"), "--pidfile="+filepath.Join(dir, "sw.pid"))
	cables := []string{m.Tap, m.FurtherCards[0].Tap}
	for _, tap := range cables {
		s.must(ns.Command(ctx, "ip", "link", "set", tap, "nomaster"))
		t.Cleanup(func() {
			s.must(ns.Command(context.WithoutCancel(ctx), "ip", "link", "set", tap, "master", netns.Bridge, "up"))
		})
	}
	tag := strconv.Itoa(vlan)
	s.vsctl(ctx, "add-br", "sw", "--", "set", "bridge", "sw", "datapath_type=netdev",
		"--", "add-port", "sw", "uplink", "tag="+tag, "--", "set", "interface", "uplink", "type=internal",
		"--", "add-bond", "sw", "lag", cables[0], cables[1], "lacp=active", "bond_mode=balance-tcp", "other_config:lacp-time=fast", "vlan_mode=trunk", "trunks="+tag)
	s.must(ns.Command(ctx, "ip", "link", "set", "uplink", "master", netns.Bridge, "up"))
	return s
}

// daemon runs a program of the switch until the test ends.
func (s ovs) daemon(ctx context.Context, name string, args ...string) {
	s.t.Helper()
	cmd := s.ns.Command(context.WithoutCancel(ctx), name, args...)
	log, err := os.Create(filepath.Join(s.dir, name+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // by the signal
		if s.t.Failed() {
			said, _ := os.ReadFile(log.Name())
			s.t.Logf("%s: %s", name, said)
		}
		log.Close()
	})
}

func (s ovs) must(cmd *exec.Cmd) {
	s.t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
}

func (s ovs) vsctl(ctx context.Context, args ...string) {
	s.t.Helper()
	s.must(exec.CommandContext(ctx, "ovs-vsctl", append([]string{"--db=unix:" + filepath.Join(s.dir, "db.sock"), "--timeout=20"}, args...)...))
}

// bothLinks is what the switch says of its two cables once the far ends take part.
var bothLinks = regexp.MustCompile(`(?s)may_enable: true.*may_enable: true`)

// bundled waits until both cables are one link, and returns what the switch says of them then.
func (s ovs) bundled(ctx context.Context) string {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		out, err := exec.CommandContext(ctx, "ovs-appctl", "-t", filepath.Join(s.dir, "sw.ctl"), "lacp/show", "lag").CombinedOutput()
		if err == nil && bothLinks.Match(out) {
			return string(out)
		}
		select {
		case <-ctx.Done():
			return string(out)
		case <-tick.C:
		}
	}
}
