// Command init is the whole user space of the test image: it loads the modules of
// its initramfs in the order of /modules.list, looks for a config drive, prints the
// instance's marker on the console and stays until the power button is pressed.
//
// It runs as process 1 and may import nothing of the project; built without cgo.
// Invariant: it never returns, because the kernel panics without its first process.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// heartbeat is how often the instance says that it lives.
const heartbeat = time.Minute

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: runs only as process 1 of the test image")
		os.Exit(2)
	}
	for target, fs := range map[string]string{"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs"} {
		if err := unix.Mount(fs, target, fs, 0, ""); err != nil {
			fmt.Printf("init: mounting %s: %v\n", target, err)
		}
	}
	loadModules()
	root := waitDisk()
	watchPowerButton()
	fmt.Println(marker(readConfigDrive(), root))
	if told := bootTable("/sys/firmware/ibft"); told != "" {
		fmt.Println(told)
	}
	for range time.Tick(heartbeat) {
		fmt.Println("IRONYARD-INSTANCE-ALIVE")
	}
}

func loadModules() {
	list, err := os.ReadFile("/modules.list")
	if err != nil {
		fmt.Println("init:", err)
	}
	for path := range strings.FieldsSeq(string(list)) {
		f, err := os.Open(path)
		if err == nil {
			err = unix.FinitModule(int(f.Fd()), "", 0)
			f.Close()
		}
		if err != nil && err != unix.EEXIST {
			fmt.Printf("init: loading %s: %v\n", path, err)
		}
	}
}

// waitDisk returns the first virtio disk, empty if none shows up in five seconds.
func waitDisk() string {
	for range 100 {
		if disks, _ := filepath.Glob("/dev/vd?"); len(disks) > 0 {
			return disks[0]
		}
		time.Sleep(50 * time.Millisecond)
	}
	return ""
}

// readConfigDrive looks for meta_data.json on every disk and partition; that file
// tells a config drive as surely as the label does. An instance without one is
// nameless.
func readConfigDrive() metadata {
	const mount = "/config"
	devices, _ := filepath.Glob("/dev/vd*")
	for _, device := range devices {
		for _, fs := range []string{"iso9660", "vfat"} {
			// Most attempts fail; the kernel need not say so on the console.
			if unix.Mount(device, mount, fs, unix.MS_RDONLY|unix.MS_SILENT, "") != nil {
				continue
			}
			data, err := os.ReadFile(mount + "/openstack/latest/meta_data.json")
			_ = unix.Unmount(mount, 0)
			if err != nil {
				continue
			}
			m, err := parseMetadata(data)
			if err != nil {
				fmt.Printf("init: config drive %s: %v\n", device, err)
				continue
			}
			return m
		}
	}
	return metadata{}
}
