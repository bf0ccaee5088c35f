package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Of an input event (linux/input.h) on a 64-bit machine: sixteen bytes of time, type and
// code of two bytes, value of four.
const (
	eventSize = 24
	typeKey   = 1
	keyPower  = 116
)

// watchPowerButton turns the machine off when its button is pressed. It listens to
// every input device; without keyboard drivers only buttons are there.
func watchPowerButton() {
	devices, _ := filepath.Glob("/dev/input/event*")
	for _, path := range devices {
		f, err := os.Open(path)
		if err != nil {
			fmt.Printf("init: opening %s: %v\n", path, err)
			continue
		}
		go func() {
			defer f.Close()
			buf := make([]byte, eventSize)
			for {
				if _, err := f.Read(buf); err != nil {
					fmt.Printf("init: reading %s: %v\n", path, err)
					return
				}
				if isPowerPress(buf) {
					powerOff()
				}
			}
		}()
	}
}

func isPowerPress(event []byte) bool {
	return len(event) == eventSize && binary.LittleEndian.Uint16(event[16:]) == typeKey &&
		binary.LittleEndian.Uint16(event[18:]) == keyPower && binary.LittleEndian.Uint32(event[20:]) == 1
}

func powerOff() {
	fmt.Println("IRONYARD-INSTANCE-OFF")
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("init: powering off:", err)
	}
}
