// Package kmod loads kernel modules that the ramdisk carries.
//
// It may import nothing of the project. Invariant: a module that cannot be loaded is told, and the others are loaded all the same.
package kmod

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lists name modules: one path a line, in an order in which each comes after those it needs. Behind a path may stand the module's
// parameters. The ramdisk builder writes them.
const (
	// Boot are those that are loaded first of all.
	Boot = "/etc/modules.list"
	// ISCSI are those of an iSCSI target, which few deploys need.
	ISCSI = "/etc/modules-iscsi.list"
	// FileSystems are those that are needed to mount what images have. Most boots of the ramdisk need none.
	FileSystems = "/etc/modules-filesystems.list"
	// Links are those of bonds and VLANs, which only a node's network_data asks for.
	Links = "/etc/modules-links.list"
	// Containers are those that podman and what it runs need. Ramdisks with podman have them.
	Containers = "/etc/modules-containers.list"
)

// Load loads the modules of a list. What cannot be loaded is told in the log.
func Load(log *slog.Logger, list string) {
	f, err := os.Open(list)
	if err != nil {
		log.Warn("no kernel modules to load", "error", err)
		return
	}
	defer f.Close()
	began, loaded := time.Now(), 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		path, parameters, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if path == "" || strings.HasPrefix(path, "#") {
			continue
		}
		switch err := loadModule(path, parameters); {
		case err == nil:
			loaded++
		case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENODEV):
			// Built in, or its hardware is not here.
		default:
			log.Warn("kernel module not loaded", "module", path, "error", err)
		}
	}
	if err := lines.Err(); err != nil {
		log.Warn("reading list of kernel modules", "error", err)
	}
	log.Info("kernel modules loaded", "modules", loaded, "seconds", time.Since(began).Seconds())
}

func loadModule(path, parameters string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), parameters, 0)
}
