package vbmc

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A firmware file has a line that says what it is, one with its checksum, and a body.
const firmwareMagic = "ironyard-virtual-firmware"

// maxFirmware bounds a file.
const maxFirmware = 1 << 20

// FirmwareFile makes a file that the BMC takes for a version of a component.
func FirmwareFile(component, version string) []byte {
	body := bytes.Repeat([]byte(component+" "+version+"\n"), 1<<10)
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s %s %s\n%s\n", firmwareMagic, component, version, hex.EncodeToString(sum[:])), body...)
}

// readFirmware reads a file whole, and checks it.
func readFirmware(from io.Reader) (f Flash, err error) {
	r := bufio.NewReader(io.LimitReader(from, maxFirmware+1))
	head, err := r.ReadString('\n')
	if err != nil {
		return f, fmt.Errorf("its first line cannot be read: %w", err)
	}
	sum, err := r.ReadString('\n')
	if err != nil {
		return f, fmt.Errorf("its checksum cannot be read: %w", err)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return f, fmt.Errorf("it breaks off: %w", err)
	}
	is := sha256.Sum256(body)
	words := strings.Fields(head)
	switch {
	case len(head)+len(sum)+len(body) > maxFirmware:
		return f, errors.New("it is too large")
	case len(words) != 3 || words[0] != firmwareMagic:
		return f, errors.New("it is no firmware")
	case strings.TrimSpace(sum) != hex.EncodeToString(is[:]):
		return f, errors.New("its checksum is wrong")
	}
	return Flash{words[1], words[2]}, nil
}
