package testimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// builder is counted up when this package would make other bytes of the same inputs.
const builder = 1

const stampName = "stamp.json"

// stamp vouches for the files that lie beside it.
type stamp struct {
	Inputs string `json:"inputs"`
	Images Images `json:"images"`
}

// inputs is a digest of all that decides on the bytes of an image of amd64.
func inputs(ctx context.Context, init []byte, kernelVersion string) (string, error) {
	grub, err := run(ctx, "", "grub-mkimage", "--version")
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "builder %d\ninit %x\nkernel %s\nmodules %s\ngrub %s\n%s\n",
		builder, sha256.Sum256(init), kernelVersion, strings.Join(modules, " "), grub, grubConfig)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readStamp returns the images in dir if they were made from these inputs and are
// all there. A stamp that cannot be read is as good as none. Paths are made anew,
// because the folder may have been moved.
func readStamp(dir, inputs string) (Images, bool) {
	data, err := os.ReadFile(filepath.Join(dir, stampName))
	if err != nil {
		return Images{}, false
	}
	var s stamp
	if json.Unmarshal(data, &s) != nil || s.Inputs != inputs {
		return Images{}, false
	}
	for _, f := range []*File{&s.Images.Raw, &s.Images.QCOW2, &s.Images.RawZstd} {
		f.Path = filepath.Join(dir, filepath.Base(f.Path))
		if st, err := os.Stat(f.Path); err != nil || !st.Mode().IsRegular() || st.Size() != f.Size {
			return Images{}, false
		}
	}
	return s.Images, true
}

func writeStamp(dir, inputs string, images Images) error {
	data, err := json.MarshalIndent(stamp{inputs, images}, "", "\t")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stampName)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
