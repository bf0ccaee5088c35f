package ipmisim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Computer is the machine that the BMC controls. It is used by one goroutine at a time.
type Computer interface {
	On() bool
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Reset(ctx context.Context) error
	Shutdown(ctx context.Context) error
	// BootOverride is network, disk or empty, and whether it is for one boot only.
	BootOverride() (device string, once bool)
	SetBootOverride(device string, once bool) error
}

// User of the BMC. Privilege is admin, operator or user.
type User struct{ Name, Password, Privilege string }

// Config describes a BMC.
type Config struct {
	// Dir is a folder for this BMC alone. Its path holds no blanks.
	Dir string
	// Address is where it listens, by UDP.
	Address netip.AddrPort
	Users   []User
	// Serial is where the machine's serial port is reached, as host:port by TCP; empty: there is no Serial over LAN.
	Serial string
	// Emulation are further commands of ipmi_sim_cmd(5): sensors, logs, controllers behind the BMC.
	Emulation string
	// LAN are parameters of the BMC's LAN channel that it is to tell, by the simulator's names, such as ip_addr; empty: it makes them up.
	LAN map[string]string
	// Command starts the program, by default exec.CommandContext; Dial reaches Address from where it runs.
	Command func(ctx context.Context, name string, args ...string) *exec.Cmd
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// BMC is a simulator that runs.
type BMC struct {
	cfg      Config
	computer Computer
	cmd      *exec.Cmd
	said     bytes.Buffer // of the simulator
	pipes    *pipes
	done     chan error
}

// startWithin bounds the simulator's start.
const startWithin = 10 * time.Second

// Start starts a simulator and returns once it answers. It runs until Stop, or until ctx ends.
func Start(ctx context.Context, cfg Config, computer Computer) (*BMC, error) {
	if cfg.Command == nil {
		cfg.Command = exec.CommandContext
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	b := &BMC{cfg: cfg, computer: computer, done: make(chan error, 1)}
	if err := b.write(); err != nil {
		return nil, fmt.Errorf("ipmi_sim at %s: %w", cfg.Address, err)
	}
	var err error
	if b.pipes, err = openPipes(cfg.Dir); err != nil {
		return nil, fmt.Errorf("ipmi_sim at %s: %w", cfg.Address, err)
	}
	controlled := make(chan struct{})
	go func() {
		defer close(controlled)
		b.pipes.serve(ctx, computer)
	}()
	b.cmd = cfg.Command(ctx, "ipmi_sim", "-n", "-c", b.file("lan.conf"), "-f", b.file("sim.emu"), "-s", b.file("state"))
	b.cmd.Stdout, b.cmd.Stderr = &b.said, &b.said
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		b.pipes.close()
		<-controlled
		return nil, fmt.Errorf("starting ipmi_sim (Debian's package %s): %w", strings.Join(Packages, ", "), err)
	}
	go func() {
		err := b.cmd.Wait()
		b.pipes.close()
		<-controlled
		b.done <- err
	}()
	if err := b.await(ctx); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// Stop ends the simulator.
func (b *BMC) Stop() error {
	_ = b.cmd.Process.Kill() // its end is what counts
	<-b.done                 // killed
	b.done <- nil
	return nil
}

// Wait returns when the simulator has ended: nil if ctx did, else with what it said.
func (b *BMC) Wait(ctx context.Context) error {
	err := <-b.done
	b.done <- err
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("ipmi_sim at %s ended: %w: %s", b.cfg.Address, err, strings.TrimSpace(b.said.String()))
}

func (b *BMC) file(name string) string { return filepath.Join(b.cfg.Dir, name) }

// presence is a Get Channel Authentication Capabilities, which each BMC answers before any login.
var presence = []byte{0x06, 0x00, 0xFF, 0x07, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0x20, 0x18, 0xC8, 0x81, 0x04, 0x38, 0x0E, 0x04, 0x31}

// await asks the BMC for a sign of life until there is one.
func (b *BMC) await(ctx context.Context) error {
	until := time.Now().Add(startWithin)
	answer := make([]byte, 512)
	for time.Now().Before(until) && ctx.Err() == nil {
		conn, err := b.cfg.Dial(ctx, "udp", b.cfg.Address.String())
		if err != nil {
			return err
		}
		_, err = conn.Write(presence)
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err = conn.Read(answer)
		}
		conn.Close()
		if err == nil {
			return nil
		}
		select {
		case err := <-b.done:
			b.done <- err
			return fmt.Errorf("ipmi_sim at %s ended: %w: %s", b.cfg.Address, err, strings.TrimSpace(b.said.String()))
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("ipmi_sim at %s does not answer", b.cfg.Address)
}

// auths are the ways to log in. Without them, and with that by which the password is sent in the clear, machines of the rack would control
// each other.
const auths = "md2 md5"

// write writes the simulator's configuration, and the program by which it controls the machine.
func (b *BMC) write() error {
	if strings.ContainsAny(b.cfg.Dir, " \t\"\\") {
		return fmt.Errorf("folder %q: its path must hold no blanks", b.cfg.Dir)
	}
	if err := os.MkdirAll(b.file("state"), 0o700); err != nil {
		return err
	}
	var lan strings.Builder
	fmt.Fprintf(&lan, "name \"sim\"\nset_working_mc 0x20\n  startlan 1\n    addr %s %d\n    priv_limit admin\n", b.cfg.Address.Addr(), b.cfg.Address.Port())
	for _, level := range []string{"callback", "user", "operator", "admin"} {
		fmt.Fprintf(&lan, "    allowed_auths_%s %s\n", level, auths)
	}
	if len(b.cfg.LAN) > 0 {
		fmt.Fprintf(&lan, "    lan_config_program \"%s\"\n", b.file("lan"))
		if err := os.WriteFile(b.file("lan"), []byte(lanProgram(b.cfg.LAN)), 0o700); err != nil {
			return err
		}
	}
	fmt.Fprintf(&lan, "    guid a123456789abcdefa123456789abcdef\n  endlan\n  chassis_control \"%s\"\n", b.file("control"))
	if b.cfg.Serial != "" {
		fmt.Fprintf(&lan, "  sol \"tcp:%s\" 115200\n", b.cfg.Serial)
	}
	for i, u := range b.cfg.Users {
		if strings.ContainsAny(u.Name+u.Password, "\"\n") {
			return errors.New("names and passwords of users hold no quotation marks")
		}
		fmt.Fprintf(&lan, "  user %d true \"%s\" \"%s\" %s 10 %s\n", i+2, u.Name, u.Password, u.Privilege, auths)
	}
	emulation := "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1bf2 0xf02\nsel_enable 0x20 1000 0x0a\n" + b.cfg.Emulation + "\nmc_enable 0x20\n"
	for name, text := range map[string]string{"lan.conf": lan.String(), "sim.emu": emulation} {
		if err := os.WriteFile(b.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(b.file("control"), []byte(program(b.cfg.Dir)), 0o700)
}

// lanProgram is a program that the simulator asks for parameters: "get NAME", with the answer "NAME:VALUE". It sets none.
func lanProgram(values map[string]string) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n[ \"$1\" = get ] || exit 1\ncase $2 in\n")
	for name, value := range values {
		fmt.Fprintf(&b, "%s) echo '%[1]s:%s' ;;\n", name, value)
	}
	b.WriteString("*) exit 1 ;;\nesac\n")
	return b.String()
}
