package partitionimage

import (
	"fmt"
	"path"

	"github.com/ironyard/ironyard/ops/elflibs"
)

// libraryFolder is where Debian has the libraries of amd64.
const libraryFolder = "usr/lib/x86_64-linux-gnu"

// addLibraries copies from this machine the libraries that the system's programs need, and those that the libraries need.
func (s system) addLibraries() error {
	for todo := s.paths(); len(todo) > 0; todo = todo[1:] {
		wanted, err := needs(s[todo[0]])
		if err != nil {
			return fmt.Errorf("libraries of /%s: %w", todo[0], err)
		}
		for _, name := range wanted {
			if _, there := s[name]; there {
				continue
			}
			if s[name], err = hostFile(name); err != nil {
				return fmt.Errorf("a library of /%s: %w", todo[0], err)
			}
			todo = append(todo, name)
		}
	}
	return nil
}

// needs are the paths of the libraries that a program or a library names, and of the loader that it asks for. Scripts, and modules of
// GRUB, need none.
func needs(c content) ([]string, error) {
	if c.link {
		return nil, nil
	}
	names, loader, err := elflibs.Needs(c.data)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names {
		list = append(list, path.Join(libraryFolder, name))
	}
	if loader != "" {
		list = append(list, path.Join("usr", loader)) // /lib64 is a link to /usr/lib64
	}
	return list, nil
}
