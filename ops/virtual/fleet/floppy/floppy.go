// Package floppy is what the ramdisk of a simulated machine does with a disk of parameters in a virtual drive: it reads the one file of a
// FAT12 volume over HTTP.
//
// It may import nothing of the project.
package floppy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// most is the size of the largest disk that is read.
const most = 4 << 20

var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 10 * time.Second}}

// Read returns the first file of the volume with a label, of the disk at url.
func Read(ctx context.Context, url, label string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", url, err)
	}
	text, err := first(b, label)
	if err != nil {
		return nil, fmt.Errorf("disk %s: %w", url, err)
	}
	return text, nil
}

var errNone = errors.New("it holds no FAT12 volume with that label and a file")

// Where a boot sector and an entry of a folder have what is read of them, and kinds of entries.
const (
	entrySize  = 32
	fixed      = 62 // the size of the fields that a boot sector begins with
	kindAt     = 11
	labelKind  = 0x08 // of labels, and of parts of long names
	folderKind = 0x10
)

// first reads the first file of the root folder.
func first(b []byte, label string) ([]byte, error) {
	if len(b) < fixed || !strings.EqualFold(strings.TrimRight(string(b[43:54]), " "), label) || !bytes.HasPrefix(b[54:], []byte("FAT12")) {
		return nil, errNone
	}
	word := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	sector, perCluster, tablesAt, tables, entries, tableSectors := word(11), int(b[13]), word(14), int(b[16]), word(17), word(22)
	rootAt := (tablesAt + tables*tableSectors) * sector
	dataAt := rootAt + entries*entrySize
	if sector == 0 || perCluster == 0 || dataAt > len(b) {
		return nil, errNone
	}
	for at := rootAt; at < dataAt && b[at] != 0; at += entrySize {
		if kind := b[at+kindAt]; b[at] == 0xe5 || kind&(labelKind|folderKind) != 0 {
			continue
		}
		cluster, size := word(at+26), int(binary.LittleEndian.Uint32(b[at+28:]))
		var text []byte
		for len(text) < size && cluster >= 2 {
			from := dataAt + (cluster-2)*perCluster*sector
			to, link := from+perCluster*sector, tablesAt*sector+cluster*3/2
			if to > len(b) {
				return nil, errNone
			}
			text = append(text, b[from:to]...)
			if next := word(link); cluster%2 == 0 {
				cluster = next & 0xfff
			} else {
				cluster = next >> 4
			}
		}
		if len(text) < size {
			return nil, errNone
		}
		return text[:size], nil
	}
	return nil, errNone
}
