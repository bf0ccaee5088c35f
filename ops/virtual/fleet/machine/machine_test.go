package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ironyard/ironyard/ops/virtual/fleet/cdrom"
	"github.com/ironyard/ironyard/ops/virtual/fleet/disk"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ipxe"
	"github.com/ironyard/ironyard/ops/virtual/fleet/journal"
	"github.com/ironyard/ironyard/ops/virtual/fleet/pace"
	"github.com/ironyard/ironyard/ops/virtual/fleet/ramdisk"
	"github.com/ironyard/ironyard/ops/virtual/vbmc"
)

// rack is the machine's network and its agent, as a test wants them.
type rack struct {
	scripts []func() (ipxe.Script, error) // the last one stays
	load    func(url string) error
	agent   func(ctx context.Context) (ramdisk.End, error)
	asked   int
	program func() (commandLine string, err error) // nil: DHCP names none
	told    int
}

func (r *rack) Script(context.Context, string) (ipxe.Script, string, error) {
	s, err := r.scripts[min(r.asked, len(r.scripts)-1)]()
	r.asked++
	return s, "the rack", err
}

func (r *rack) Chain(ctx context.Context, urls []string) (ipxe.Script, string, error) {
	return r.Script(ctx, "")
}

func (r *rack) Load(_ context.Context, url string) (string, error) {
	if r.load == nil {
		return "sum of " + url, nil
	}
	return "sum of " + url, r.load(url)
}

func (r *rack) Program(context.Context, string) (kernel, commandLine string, err error) {
	if r.program == nil {
		return "", "", ipxe.ErrNoProgram
	}
	commandLine, err = r.program()
	return "kernel of a program", commandLine, err
}

func (r *rack) Parameters(context.Context, string) (string, error) {
	r.told++
	if r.told == 1 {
		return "", errors.New("no rackd answers")
	}
	return "ipa-api-url=https://10.0.0.1", nil
}

func (r *rack) Run(ctx context.Context, _ string) (ramdisk.End, error) { return r.agent(ctx) }

func script(o ipxe.Order) func() (ipxe.Script, error) {
	return func() (ipxe.Script, error) {
		return ipxe.Script{Order: o, Kernel: "k", Initrd: "i", CommandLine: "ipa-api-url=http://10.0.0.1", Volumes: []string{"iscsi:10.0.0.9::::iqn.v"}, Pause: 5 * time.Second}, nil
	}
}

func silence() (ipxe.Script, error) { return ipxe.Script{}, errors.New("no rackd answers") }

// stays is an agent that is not told to end.
func stays(ctx context.Context) (ramdisk.End, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

type bench struct {
	*Machine
	rack *rack
}

// in runs a test of one machine in fake time.
func in(t *testing.T, r *rack, test func(t *testing.T, b bench)) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(0)
		m := New(Config{Name: "m", MAC: "52:54:00:00:00:01", Disk: disk.New("m", j), Journal: j, Firmware: r, Agent: r,
			Pace: pace.New(pace.Timings{Firmware: 10 * time.Second, Ramdisk: 10 * time.Second, Instance: 10 * time.Second, Retry: time.Second, Shutdown: 10 * time.Second}, 1, 1)})
		defer m.Close()
		test(t, bench{m, r})
	})
}

func (b bench) install(t *testing.T) {
	t.Helper()
	if err := b.cfg.Disk.Write(t.Context(), disk.By{Work: "w"}, "image-1", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func (b bench) on(t *testing.T) {
	t.Helper()
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// at checks the state after a while.
func (b bench) at(t *testing.T, after time.Duration, want State) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if s := b.Status(); s.State != want || s.On != (want != Off) {
		t.Errorf("after %s the machine is %+v, want %s", after, s, want)
	}
}

func (b bench) told() string {
	var words []string
	for _, r := range b.cfg.Journal.After(0, 0) {
		words = append(words, string(r.Kind))
	}
	return strings.Join(words, " ")
}

func TestFromTheNetworkToTheAgentAndBack(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){silence, silence, script(ipxe.Ramdisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 11*time.Second, Booting) // nobody answers
		b.at(t, 2*time.Second, InRamdisk)
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		b.at(t, time.Minute, InRamdisk) // it does not care
		if err := b.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		b.at(t, 0, Off)
		if got := b.told(); got != "power-on boot-failed boot-script power-off" {
			t.Errorf("the journal says %s", got)
		}
	})
}

func TestAgentEndsTheRun(t *testing.T) {
	ends := []ramdisk.End{ramdisk.Reboot, ramdisk.PowerOff}
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}}
	r.agent = func(ctx context.Context) (end ramdisk.End, err error) {
		end, ends = ends[0], ends[1:]
		return end, nil
	}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 25*time.Second, Booting)
		b.at(t, 25*time.Second, Off)
		if s := b.Status(); s.Boots != 2 || b.told() != "power-on boot-script reset boot-script power-off" {
			t.Errorf("%d boots, %s", s.Boots, b.told())
		}
	})
}

func TestAgentThatGivesUpStartsAgain(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}, agent: func(context.Context) (ramdisk.End, error) { return "", errors.New("no token") }}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 45*time.Second, Booting)
		if got := b.told(); got != "power-on boot-script agent-failed reset boot-script agent-failed reset" {
			t.Errorf("the journal says %s", got)
		}
	})
}

func TestBootOrder(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.LocalDisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		b.SetBootOverride(vbmc.Disk, true)
		b.on(t)
		b.at(t, time.Minute, Stuck) // nothing on it
		if device, once := b.BootOverride(); device != "" || once {
			t.Errorf("an override for one boot is left: %s, %t", device, once)
		}
		b.install(t)
		b.Reset(t.Context())
		b.at(t, time.Minute, Instance) // the disk, because it has something
		if r.asked != 0 {
			t.Error("the network was asked")
		}
		b.SetBootOverride(vbmc.Network, false)
		b.Reset(t.Context())
		b.at(t, time.Minute, Instance) // told by the script
		if r.asked != 1 {
			t.Errorf("the network was asked %d times, want 1", r.asked)
		}
		if device, _ := b.BootOverride(); device != vbmc.Network {
			t.Error("an override for good is gone")
		}
	})
}

func TestPowerButton(t *testing.T) {
	in(t, &rack{}, func(t *testing.T, b bench) {
		if err := b.Shutdown(t.Context()); !errors.Is(err, ErrOff) {
			t.Errorf("a machine that is off: %v", err)
		}
		b.install(t)
		b.on(t)
		b.at(t, 30*time.Second, Instance)
		b.Restart(t.Context())
		b.at(t, 11*time.Second, Booting)
		b.at(t, time.Minute, Instance)
		b.Shutdown(t.Context())
		b.Reset(t.Context()) // meanwhile
		b.at(t, time.Minute, Instance)
		b.Shutdown(t.Context())
		b.at(t, 11*time.Second, Off)
	})
}

func TestRamdiskThatDoesNotLoad(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk), script(ipxe.Ramdisk), silence, script(ipxe.Restart)}, agent: stays}
	r.load = func(string) error { return errors.New("rackd is gone") }
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 10*time.Second+15*time.Second+1, Booting) // twice not loaded, then no script: restart
		if s := b.Status(); s.Boots != 2 {
			t.Errorf("%d boots, want 2: %s", s.Boots, b.told())
		}
		b.at(t, 16*time.Second, Booting)
		if s := b.Status(); s.Boots != 3 {
			t.Errorf("%d boots, want 3, since there is nothing to boot: %s", s.Boots, b.told())
		}
	})
}

func TestLaterAnotherRackdIsAsked(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Later), script(ipxe.Ramdisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, 12*time.Second, Booting)
		b.at(t, 4*time.Second, InRamdisk)
		if s := b.Status(); s.Boots != 1 || b.told() != "power-on boot-script boot-script" {
			t.Errorf("%d boots, %s", s.Boots, b.told())
		}
	})
}

// Whenever the power goes, nothing of the boot goes on.
func TestPowerCutAtAnyMoment(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second, 25 * time.Second} {
		running := false
		r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}, agent: func(ctx context.Context) (ramdisk.End, error) {
			running = true
			defer func() { running = false }()
			return stays(ctx)
		}}
		in(t, r, func(t *testing.T, b bench) {
			b.on(t)
			time.Sleep(after)
			b.Stop(t.Context())
			seq := b.cfg.Journal.Last()
			if running {
				t.Errorf("cut after %s: the agent runs on", after)
			}
			b.at(t, time.Hour, Off)
			if more := b.cfg.Journal.After(seq, 0); len(more) > 0 {
				t.Errorf("cut after %s: %v", after, more)
			}
		})
	}
}

func TestGlitch(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Ramdisk)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		if err := b.Glitch(); !errors.Is(err, ErrOff) {
			t.Errorf("%v", err)
		}
		b.on(t)
		b.at(t, time.Minute, InRamdisk)
		if err := b.Glitch(); err != nil {
			t.Error(err)
		}
		b.at(t, time.Second, Booting)
		kinds := strings.Fields(b.told())
		if !slices.Contains(kinds, string(journal.Reset)) || slices.Contains(kinds, string(journal.PowerOff)) {
			t.Errorf("the journal says %v", kinds)
		}
	})
}

// A machine that is reset has power all the time: who reads it meanwhile must not take it for switched off.
func TestPowerInAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Config{Name: "slow", Journal: journal.New(0), Pace: pace.New(pace.Timings{}, 1, 1)})
		defer m.Close()
		m.start(journal.PowerOn, "by a test")
		moves := &life{cancel: func(error) {}, done: make(chan struct{})}
		m.life = moves
		ended := make(chan error, 1)
		go func() { ended <- m.Glitch() }()
		synctest.Wait() // its life is told to end, and has not yet
		if !m.On() {
			t.Error("it is off in a reset")
		}
		close(moves.done)
		if err := <-ended; err != nil || !m.On() || m.Status().Boots != 2 {
			t.Errorf("%v, %+v", err, m.Status())
		}
	})
}

func TestMachineWithPowerAlone(t *testing.T) {
	m := New(Config{Name: "light", Journal: journal.New(0), Pace: pace.New(pace.Timings{}, 1, 1)})
	defer m.Close()
	for _, act := range []func(context.Context) error{m.Start, m.Start, m.Reset, m.Stop, m.Stop} {
		if err := act(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if s := m.Status(); s.On || s.Boots != 2 {
		t.Errorf("%+v", s)
	}
}

// A machine starts what is in its CD drive: an agent's kernel, or an instance's. Else firmware goes on with its boot order.
func TestFromAMedium(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Restart)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		discs := map[string]cdrom.System{"http://r/agent.iso": {CommandLine: "ipa-api-url=http://r"}, "http://r/instance.iso": {Kernel: "sum", CommandLine: "quiet"}}
		b.cfg.Disc = func(_ context.Context, url string) (cdrom.System, error) {
			s, ok := discs[url]
			if !ok {
				return s, errors.New("not found: " + url)
			}
			return s, nil
		}
		for _, c := range []struct {
			image    string
			want     State
			readable bool
		}{{"http://r/agent.iso", InRamdisk, true}, {"http://r/instance.iso", Instance, true}, {"http://r/gone.iso", Booting, false}} {
			r.asked = 0
			if err := errors.Join(b.Stop(t.Context()), b.EjectMedium(t.Context()), b.InsertMedium(t.Context(), c.image), b.SetBootOverride(vbmc.Media, true)); err != nil {
				t.Fatal(err)
			}
			b.on(t)
			b.at(t, 30*time.Second, c.want)
			if image, problem := b.Medium(); image != c.image || (problem == nil) != c.readable || (r.asked == 0) != c.readable {
				t.Errorf("the drive holds %s, %v; the network was asked %d times", image, problem, r.asked)
			}
			if err := errors.Join(b.Stop(t.Context()), b.EjectMedium(t.Context()), b.InsertStick(t.Context(), c.image), b.SetBootOverride(vbmc.Stick, true)); err != nil {
				t.Fatal(err)
			}
			b.on(t)
			b.at(t, 30*time.Second, c.want)
			if image, problem, _ := b.Stick(); image != c.image || (problem == nil) != c.readable {
				t.Errorf("the stick holds %s, %v", image, problem)
			}
		}
		if !slices.ContainsFunc(b.cfg.Journal.After(0, 0), func(r journal.Record) bool { return r.Kind == journal.InstanceUp && r.Image == "sum" }) {
			t.Error("the journal names no kernel of the instance")
		}
	})
}

// A kernel that gets no word of agents is an instance's.
func TestInstanceFromTheNetwork(t *testing.T) {
	r := &rack{agent: stays, scripts: []func() (ipxe.Script, error){func() (ipxe.Script, error) {
		return ipxe.Script{Order: ipxe.Ramdisk, Kernel: "k", Initrd: "i", CommandLine: "quiet"}, nil
	}}}
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, time.Minute, Instance)
		if all := b.cfg.Journal.After(0, 0); all[len(all)-1].Image != "sum of k" {
			t.Errorf("%+v", all)
		}
	})
	r.scripts, r.asked = []func() (ipxe.Script, error){script(ipxe.Volume)}, 0
	in(t, r, func(t *testing.T, b bench) {
		b.on(t)
		b.at(t, time.Minute, Instance)
	})
}

// Firmware that was told of a volume logs in at its next start, and shows it as a boot option from then on.
func TestVolumeOfTheFirmware(t *testing.T) {
	r := &rack{scripts: []func() (ipxe.Script, error){script(ipxe.Restart)}, agent: stays}
	in(t, r, func(t *testing.T, b bench) {
		if _, _, err := b.BootOptions(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("firmware without volumes: %v", err)
		}
		b.cfg.Volumes = true
		if err := b.SetISCSIBoot(vbmc.ISCSIBoot{Initiator: "iqn.m", Targets: []vbmc.ISCSITarget{{Name: "iqn.v"}}}); err != nil {
			t.Fatal(err)
		}
		if now, next, _, err := b.ISCSIBoot(); err != nil || len(now.Targets) != 0 || next == nil || !slices.Equal(b.Attaches(), []string{"iqn.v"}) {
			t.Errorf("%+v, %+v, %v", now, next, err)
		}
		b.on(t)
		b.at(t, 11*time.Second, Booting) // its order has the network first
		options, n, err := b.BootOptions()
		if err != nil || n != 3 || !strings.Contains(options[2].Path, "iSCSI(iqn.v,") {
			t.Fatalf("%+v, %d, %v", options, n, err)
		}
		if err := errors.Join(b.OrderBoot([]string{volumeOption, diskOption, networkOption}), b.Reset(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.at(t, time.Minute, Instance)
		if err := errors.Join(b.SetISCSIBoot(vbmc.ISCSIBoot{}), b.Reset(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.at(t, 11*time.Second, Booting)
		if options, _, _ := b.BootOptions(); len(options) != 2 || len(b.Attaches()) != 0 {
			t.Errorf("%+v are left", options)
		}
	})
}
