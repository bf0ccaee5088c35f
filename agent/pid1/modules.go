package pid1

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ModuleList names the modules to load: one path a line, in an order in which each
// comes after those it needs. The ramdisk builder writes it.
const ModuleList = "/etc/modules.list"

// FileSystemList names, in the same form, the modules that are needed to mount what images have. Most boots of the ramdisk need none.
const FileSystemList = "/etc/filesystems.list"

// LoadFileSystems loads the modules of FileSystemList. What cannot be loaded is told in the log, and mount will fail.
func LoadFileSystems(log *slog.Logger) { loadModules(log, FileSystemList) }

func loadModules(log *slog.Logger, list string) {
	f, err := os.Open(list)
	if err != nil {
		log.Warn("no kernel modules to load", "error", err)
		return
	}
	defer f.Close()
	began, loaded := time.Now(), 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		path := strings.TrimSpace(lines.Text())
		if path == "" || strings.HasPrefix(path, "#") {
			continue
		}
		switch err := loadModule(path); {
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

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}
