// Package loaderconfig writes the configurations of boot loaders other than iPXE, for one machine each: GRUB's for UEFI and
// pxelinux's for BIOS. They are pure functions of what the machine is to do, as ipxescript is.
//
// It may import rackd/bootorder, rackd/netboot, rackd/netboot/bootfiles and rackd/netboot/ipxescript, which knows the kernel's
// command line. Both loaders get all files by TFTP: GRUB 2.06 and pxelinux load from no other port than HTTP's own.
// Invariant: text of operators ends no line, no quotation and no word.
package loaderconfig

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/netboot"
	"github.com/ironyard/ironyard/rackd/netboot/ipxescript"
)

// file is where a loader finds a kernel or ramdisk: a path at the rackd, or, with a host, one elsewhere.
type file struct{ host, path string }

// locate says where a machine's kernel or ramdisk is. name is the rack's file, and kind what it is to a node that brings its own.
func locate(of bootorder.File, mac, name, kind string) (file, error) {
	if of.URL == "" {
		if name == "" {
			return file{}, ipxescript.ErrNoRamdisk
		}
		return file{path: "/" + name}, nil
	}
	u, err := url.Parse(of.URL)
	if err == nil && u.Scheme == "tftp" {
		if u.Host == "" || strings.ContainsFunc(u.Host+u.Path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`'"\,()`, r) }) {
			return file{}, fmt.Errorf("%q is no place that GRUB and pxelinux load from", of.URL)
		}
		return file{u.Host, u.Path}, nil
	}
	return file{path: "/" + netboot.OwnFilePath + netboot.Dashed(mac) + "/" + kind}, nil
}

// ready is what a machine loads and its kernel's words.
type ready struct {
	what            string
	kernel, ramdisk file
	words           []string
}

// prepare says what a machine with something to load loads.
func prepare(m netboot.Machine, mac string, r ipxescript.Ramdisk) (p ready, err error) {
	l := m.Order.Load
	if p.words, err = ipxescript.CommandLine(m, mac, r); err != nil {
		return p, err
	}
	racksKernel, racks := r.Files(l.Rescue)
	if p.kernel, err = locate(l.Kernel, mac, racksKernel, netboot.OwnKernel); err != nil {
		return p, err
	}
	p.what = ipxescript.What(m)
	p.ramdisk, err = locate(l.Initramfs, mac, racks, netboot.OwnRamdisk)
	return p, err
}

// greeting is the line that says what a machine does.
func greeting(m netboot.Machine, what string) string {
	return fmt.Sprintf("Ironyard: %s boots %s, state %s", ipxescript.Label(m), what, m.State)
}

// reason says why a machine has nothing to load: for good, until its order changes, or for a while.
func reason(m netboot.Machine) (text string, forGood bool) {
	switch {
	case m.Order.Again:
		return m.Order.Reason, false
	case m.Order.Reason != "":
		return m.Order.Reason, true
	}
	return "its order (" + m.Order.Name + ") is none for this boot loader: use the boot interface ipxe", true
}

const (
	unheard = "no rackd has seen which address this machine was given"
	foreign = "this is not the address that DHCP gave the machine whose configuration was asked for; rackd's log says more"
)

func unknown(named string) string {
	return named + " is of no node: enrol the machine and create its port, or switch it off"
}
