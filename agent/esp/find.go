package esp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode/utf16"
)

// What is read of a partition at most.
const (
	maxFolders = 64
	maxCSV     = 64 << 10
)

// installed are the loaders of systems, in their folder below \EFI, the first that is there first.
func installed() []string {
	return []string{"shim" + Suffix() + ".efi", "grub" + Suffix() + ".efi", "systemd-boot" + Suffix() + ".efi", "Boot/bootmgfw.efi"}
}

// find looks for a loader in the order that Loader gives.
func find(files folder) (loader string, err error) {
	defer func() {
		if p := recover(); p != nil { // of the library's, at a file system that is broken
			loader, err = "", fmt.Errorf("%w: %v", ErrUnreadable, p)
		}
	}()
	s := search{files: files}
	vendors := s.vendors()
	for _, v := range vendors {
		for _, name := range []string{"BOOT" + Suffix() + ".CSV", "BOOT.CSV"} {
			if named := s.listed(v, name); named != "" {
				return named, nil
			}
		}
	}
	if found := s.file("EFI/BOOT", "BOOT"+Suffix()+".EFI"); found != "" {
		return found, nil
	}
	for _, name := range installed() {
		for _, v := range vendors {
			if found := s.file(path.Join(v, path.Dir(name)), path.Base(name)); found != "" {
				return found, nil
			}
		}
	}
	if s.err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnreadable, s.err)
	}
	return "", &NoLoaderError{Looked: s.looked}
}

// search keeps what was looked for, and the first failure to read, which may hide a loader.
type search struct {
	files  folder
	looked []string
	err    error
}

// vendors are the folders below \EFI but for BOOT.
func (s *search) vendors() (list []string) {
	for _, e := range s.list("EFI") {
		if e.IsDir() && len(list) < maxFolders && !strings.EqualFold(e.Name(), "BOOT") && !strings.HasPrefix(e.Name(), ".") {
			list = append(list, "EFI/"+e.Name())
		}
	}
	return list
}

// list reads a folder, whose name may be in whichever case; one that is not there is empty.
func (s *search) list(dir string) []fs.DirEntry {
	at := "."
	for name := range strings.SplitSeq(dir, "/") {
		actual := ""
		for _, e := range s.read(at) {
			if e.IsDir() && strings.EqualFold(e.Name(), name) {
				actual = e.Name()
			}
		}
		if actual == "" {
			return nil
		}
		at = path.Join(at, actual)
	}
	return s.read(at)
}

func (s *search) read(dir string) []fs.DirEntry {
	entries, err := s.files.ReadDir(dir)
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("read folder %s: %w", dir, err)
	}
	return entries
}

// file returns the path of a file that is in a folder and not empty.
func (s *search) file(dir, name string) string {
	s.looked = append(s.looked, firmware(path.Join(dir, name)))
	for _, e := range s.list(dir) {
		if e.IsDir() || !strings.EqualFold(e.Name(), name) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Size() > 0 {
			return firmware(path.Join(dir, e.Name()))
		}
	}
	return ""
}

// firmware is a path as UEFI writes it.
func firmware(path string) string { return `\` + strings.ReplaceAll(path, "/", `\`) }

// listed returns the first loader that is there of those that a CSV names, in its own folder.
func (s *search) listed(dir, name string) string {
	at := s.file(dir, name)
	if at == "" {
		return ""
	}
	f, err := s.files.Open(strings.ReplaceAll(at[1:], `\`, "/"))
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxCSV))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text(raw)) {
		loader, _, _ := strings.Cut(strings.TrimSpace(line), ",")
		if loader == "" || strings.ContainsAny(loader, `/\`) {
			continue
		}
		if found := s.file(dir, loader); found != "" {
			return found
		}
	}
	return ""
}

// text decodes a CSV, which is UTF-16 with or without a mark.
func text(raw []byte) string {
	raw, _ = bytes.CutPrefix(raw, []byte{0xFF, 0xFE})
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return string(utf16.Decode(units))
}
