package ipxe

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Order is what a script comes to.
type Order string

// The orders.
const (
	Ramdisk   Order = "ramdisk"
	LocalDisk Order = "disk"
	// Later: another rackd is to be asked, after a pause.
	Later Order = "later"
	// Restart: there is nothing to boot; the machine waits and starts again.
	Restart Order = "restart"
	// Volume: volumes are attached, and the first is booted.
	Volume Order = "volume"
	// Image: an image of a CD is booted.
	Image Order = "image"
)

// Script is a boot script as far as the simulated firmware follows it.
type Script struct {
	Order Order
	// Kernel and Initrd are the URLs to load, CommandLine what the kernel is given.
	Kernel, Initrd, CommandLine string
	// Volumes are the URIs of the volumes to attach, the one to boot first. Image is the URL of the image to boot.
	Volumes []string
	Image   string
	// Pause is before a restart, or before Next.
	Pause time.Duration
	// Next are the URLs of scripts to go on with later, or when the ramdisk did not load.
	Next []string
	// Said is the last line that the script shows, for people.
	Said string
}

// Parse reads a script that rackd writes. A command that it does not know is an
// error: then the simulation is older than the product.
func Parse(text string) (Script, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if lines[0] != "#!ipxe" {
		return Script{}, errors.New("it does not begin with #!ipxe")
	}
	var s Script
	for n, line := range lines[1:] {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], ":") {
			continue
		}
		if err := s.obey(words); err != nil {
			return Script{}, fmt.Errorf("line %d, %q: %w", n+2, line, err)
		}
	}
	switch {
	case s.Order == "":
		return Script{}, errors.New("it boots nothing")
	case s.Order == Ramdisk && (s.Kernel == "" || s.Initrd == ""):
		return Script{}, errors.New("it boots without kernel or ramdisk")
	}
	return s, nil
}

// obey takes one command; the first that ends the script decides its order.
func (s *Script) obey(words []string) error {
	switch words[0] {
	case "echo":
		if s.Order == "" && len(words) > 1 {
			s.Said = strings.Join(words[1:], " ")
		}
	case "kernel":
		args, _, _ := strings.Cut(strings.Join(words[1:], " "), " || ")
		s.Kernel, s.CommandLine, _ = strings.Cut(args, " ")
	case "initrd":
		for i, w := range words {
			if w == "||" {
				s.Initrd = words[i-1]
			}
		}
	case "sleep":
		seconds, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			return err
		}
		s.Pause = time.Duration(seconds) * time.Second
	case "boot":
		s.decide(Ramdisk)
	case "exit":
		s.decide(LocalDisk)
	case "sanhook":
		for i, w := range words {
			if w == "||" {
				s.Volumes = append(s.Volumes, words[i-1])
			}
		}
	case "sanboot":
		switch at := sanURL(words); {
		case at != "":
			s.Image = at
			s.decide(Image)
		case len(s.Volumes) > 0:
			s.decide(Volume)
		default:
			s.decide(LocalDisk)
		}
	case "reboot":
		s.decide(Restart)
	case "chain":
		for i, w := range words {
			if w == "||" {
				s.Next = append(s.Next, words[i-1])
			}
		}
		s.decide(Later) // unless the chain follows on a boot that failed
	case "imgfree", "dhcp": // its address is given
	case "set", "clear", "sanunhook": // of volumes, whose targets ask for nothing here
	default:
		return errors.New("unknown command")
	}
	return nil
}

func (s *Script) decide(o Order) {
	if s.Order == "" {
		s.Order = o
	}
}

// sanURL is the URL that a sanboot names; empty where it boots a drive.
func sanURL(words []string) string {
	for _, w := range words {
		if strings.HasPrefix(w, "http://") || strings.HasPrefix(w, "https://") {
			return w
		}
	}
	return ""
}
