package topology

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ironyard/ironyard/e2e/faults/network"
	"github.com/ironyard/ironyard/e2e/faults/process"
	"github.com/ironyard/ironyard/ops/virtual/fleet/control"
)

// Ports of a site's rackds and machines.
const (
	controlPort = 7000
	webPort     = 8080
)

// Machines are a site's simulated machines, all of one process.
type Machines struct {
	*process.Process
	Client *control.Client
}

// Image is an image that machines are deployed with.
type Image struct {
	URL, SHA256 string
}

// Info is the node's instance_info for it.
func (i Image) Info() map[string]any {
	return map[string]any{"image_source": i.URL, "image_os_hash_algo": "sha256", "image_os_hash_value": i.SHA256, "image_disk_format": "raw"}
}

// imageBytes is the size of an image: small, because how long a machine writes is the
// simulation's affair.
const imageBytes = 256 << 10

// images makes the images and what machines boot.
func (t *Topology) images() error {
	if err := os.MkdirAll(t.imageDir(), 0o755); err != nil {
		return err
	}
	for i := range 3 {
		body := make([]byte, imageBytes)
		rand.NewChaCha8([32]byte{byte(i)}).Read(body)
		file := filepath.Join(t.imageDir(), fmt.Sprintf("image-%d.raw", i+1))
		if err := os.WriteFile(file, body, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		t.Images = append(t.Images, Image{"file://" + file, hex.EncodeToString(sum[:])})
	}
	// Simulated firmware loads these and looks no further.
	for _, name := range []string{"kernel", "ramdisk", "undionly.kpxe"} {
		if err := os.WriteFile(filepath.Join(t.imageDir(), name), []byte("simulated "+name), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (t *Topology) imageDir() string { return filepath.Join(t.Dir, "images") }

// rackArgs are what a rackd needs to serve machines at its host's address.
func (t *Topology) rackArgs(h *network.Host) []string {
	dir := t.imageDir()
	return []string{"--interface", "eth0", "--address", h.Addr.String(), "--prefix", strconv.Itoa(network.Prefix.Bits()), "--dhcp", "off",
		"--http-port", strconv.Itoa(webPort), "--boot-programs", dir, "--kernel", filepath.Join(dir, "kernel"), "--ramdisk", filepath.Join(dir, "ramdisk"),
		"--image-dirs", dir}
}

// newMachines makes the host of a site's machines, which have addresses of their own.
func (t *Topology) newMachines(s *Site, number int, args []string) error {
	h, err := t.host(s.Switch, s.Name+"m", number, 100)
	if err != nil {
		return err
	}
	space := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(100 + number), 0}), 24)
	if err := h.Own(space); err != nil {
		return err
	}
	all := []string{"--name", s.Name, "--machines", strconv.Itoa(len(s.machineGroups)), "--network", space.String(), "--interface", "",
		"--control", h.At(controlPort), "--seed", strconv.FormatUint(t.cfg.Seed, 10)}
	for _, r := range s.Rackds {
		all = append(all, "--rackd", "http://"+r.Host().At(webPort))
	}
	web := client(h)
	s.Machines = &Machines{Client: &control.Client{Base: "http://" + h.At(controlPort), HTTP: &web}, Process: process.New(process.Spec{Name: h.Name, Host: h,
		Path: t.cfg.Programs.Fleet, Args: append(all, args...), Log: filepath.Join(t.Dir, h.Name+".log")})}
	return nil
}

// Answers reports whether the machines can be asked.
func (m *Machines) Answers(ctx context.Context) error {
	_, err := m.Client.Machines(ctx)
	return err
}

// MachineCount is how many machines the site has.
func (s *Site) MachineCount() int { return len(s.machineGroups) }

// GroupOf is the conductor group that machine number i of the site is to be enrolled in.
func (s *Site) GroupOf(i int) string { return s.machineGroups[i] }
