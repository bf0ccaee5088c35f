// Package elflibs tells which libraries a program or a library needs, for those who copy programs to where nothing else is.
//
// It may import nothing of the project. It reads ELF files as debug/elf does and starts none of them.
package elflibs

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Needs returns the names of the libraries that a file names, and the path of the loader that it asks for, without a slash at its
// beginning. A library asks for no loader. What is no ELF file needs nothing.
func Needs(file []byte) (libraries []string, loader string, err error) {
	if !bytes.HasPrefix(file, []byte(elf.ELFMAG)) {
		return nil, "", nil
	}
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, "", err
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, "", err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "ld-linux") { // the loader, which programs name by its path
			libraries = append(libraries, name)
		}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		at, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, "", err
		}
		loader = strings.TrimPrefix(path.Clean(strings.TrimRight(string(at), "\x00")), "/")
		if !fs.ValidPath(loader) {
			return nil, "", fmt.Errorf("its loader is %q", at)
		}
	}
	return libraries, loader, nil
}
