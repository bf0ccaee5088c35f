package configdrive

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What Build makes is read back, whole.
func TestFilesOfADrive(t *testing.T) {
	user := string(bytes.Repeat([]byte("x"), 3*sector+1))
	drive, err := Build(t.Context(), nil, `{"meta_data":{"a":1},"user_data":"`+user+`","network_data":{"links":[]}}`, Defaults{UUID: "u", Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := Files(drive)
	if err != nil || len(files) != 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for i, want := range []File{{"openstack/latest/meta_data.json", []byte(`{"a":1,"hostname":"n","name":"n","uuid":"u"}`)},
		{"openstack/latest/network_data.json", []byte(`{"links":[]}`)}, {"openstack/latest/user_data", []byte(user)}} {
		if files[i].Name != want.Name || !bytes.Equal(files[i].Body, want.Body) {
			t.Errorf("%s: %.100q, want %s: %.100q", files[i].Name, files[i].Body, want.Name, want.Body)
		}
	}
}

// Drives of other programs are read, with Joliet, with Rock Ridge, and with the plain names.
func TestFilesOfForeignDrives(t *testing.T) {
	xorriso, err := exec.LookPath("xorriso")
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatal("xorriso is not here: ops/setup/packages.sh test")
		}
		t.Skip("xorriso is not here")
	}
	src := t.TempDir()
	if err := os.MkdirAll(filepath.Join(src, "openstack/2018-08-27"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"openstack/2018-08-27/meta_data.json": "{}", "openstack/2018-08-27/network_data_of_this_very_machine.json": "long name", "openstack/2018-08-27/user_data": "#!"} {
		if err := os.WriteFile(filepath.Join(src, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, options := range [][]string{{"-J", "-r"}, {"-R"}, {"-J"}} {
		out := filepath.Join(t.TempDir(), "d.iso")
		args := append([]string{"-as", "mkisofs", "-quiet", "-V", Label, "-o", out}, options...)
		if said, err := exec.Command(xorriso, append(args, src)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		image, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		drive, err := pack(image)
		if err != nil {
			t.Fatal(err)
		}
		files, err := Files(drive)
		if err != nil || len(files) != 3 || files[1].Name != "openstack/2018-08-27/network_data_of_this_very_machine.json" || string(files[1].Body) != "long name" {
			t.Errorf("%v: %q, %v", options, files, err)
		}
	}
}

// The entries of a folder may all point to the same place. They are not copied without end.
func TestFilesThatShareTheirPlace(t *testing.T) {
	image := make([]byte, 64*sector)
	record := func(at []byte, name string, start, size int, flags byte) int {
		length := recordName + len(name) + 1 - len(name)%2
		at[0], at[recordFlags], at[32] = byte(length), flags, byte(len(name))
		binary.LittleEndian.PutUint32(at[recordStart:], uint32(start))
		binary.LittleEndian.PutUint32(at[recordSize:], uint32(size))
		copy(at[recordName:], name)
		return length
	}
	first := image[primarySector*sector:]
	first[0] = 1
	copy(first[1:], "CD001")
	record(first[rootRecord:], "\x00", primarySector+2, 4*sector, flagFolder)
	copy(image[(primarySector+1)*sector:], "\xffCD001")
	folder := image[(primarySector+2)*sector:]
	for i := range 4 { // in one sector: records do not cross them
		folder = folder[record(folder, string(rune('A'+i)), 0, 32*sector, 0):]
	}
	drive, err := pack(image)
	if err != nil {
		t.Fatal(err)
	}
	if files, err := Files(drive); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "more than the image") {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func FuzzFiles(f *testing.F) {
	drive, err := Build(f.Context(), nil, `{"user_data":"x"}`, Defaults{UUID: "u", Name: "n"})
	if err != nil {
		f.Fatal(err)
	}
	z, _ := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader([]byte(drive))))
	var image bytes.Buffer
	image.ReadFrom(z)
	f.Add(image.Bytes())
	f.Fuzz(func(t *testing.T, image []byte) {
		drive, err := pack(image)
		if err != nil {
			t.Fatal(err)
		}
		files, err := Files(drive)
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		all := 0
		for _, f := range files {
			all += len(f.Body)
		}
		if all > len(image) {
			t.Fatal("the files have more than the image")
		}
	})
}
