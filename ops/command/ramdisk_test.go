package command

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ironyard/ironyard/ops/uki/ukitest"
	"github.com/ironyard/ironyard/ops/virtual/agentvm"
)

// parsed are the flags of a ramdisk build.
func parsed(args ...string) (c ramdiskBuild, err error) {
	p, err := kong.New(&c)
	if err == nil {
		_, err = p.Parse(args)
	}
	return c, err
}

// signingFiles writes a key, its certificate, and the certificate of another key.
func signingFiles(t *testing.T) (key, certificate, stranger string) {
	t.Helper()
	dir := t.TempDir()
	k, c := ukitest.Keys(t)
	_, other := ukitest.Keys(t)
	for name, body := range map[string][]byte{"key.pem": k, "cert.pem": c, "other.pem": other} {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "other.pem")
}

// Flags of a signature that do not go together are refused, each with its reason, before anything is fetched or built.
func TestFlagsOfASignature(t *testing.T) {
	key, certificate, stranger := signingFiles(t)
	none, folder, text := filepath.Join(t.TempDir(), "none"), t.TempDir(), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a key without a certificate":     {[]string{"--uki", "--sign", key}, "--sign and --cert belong together"},
		"a certificate without a key":     {[]string{"--uki", "--cert", certificate}, "--sign and --cert belong together"},
		"another's certificate":           {[]string{"--uki", "--sign", key, "--cert", stranger}, "--cert " + stranger + ": the signing certificate is of another key"},
		"the two the wrong way round":     {[]string{"--uki", "--sign", certificate, "--cert", key}, `the signing key is a PEM block "CERTIFICATE"`},
		"a key that is none":              {[]string{"--uki", "--sign", text, "--cert", certificate}, "--sign " + text + " with"},
		"a certificate that is none":      {[]string{"--uki", "--sign", key, "--cert", text}, "the signing certificate is no PEM file"},
		"no such key":                     {[]string{"--uki", "--sign", none, "--cert", certificate}, "--sign"},
		"no such certificate":             {[]string{"--uki", "--sign", key, "--cert", none}, "--cert"},
		"a folder for a key":              {[]string{"--uki", "--sign", folder, "--cert", certificate}, "--sign"},
		"a signature without the program": {[]string{"--sign", key, "--cert", certificate}, "give --uki too"},
		"a key alone, without it":         {[]string{"--sign", key}, "give --uki too"},
		"a certificate alone, without it": {[]string{"--cert", certificate}, "give --uki too"},
	} {
		out, cache := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "cache")
		build, err := parsed(append([]string{out, "--cache", cache}, c.args...)...)
		if err == nil {
			err = build.Run(t.Context(), slog.New(slog.DiscardHandler))
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want a refusal that says %q", name, err, c.says)
		}
		for _, made := range []string{out, cache} {
			if _, err := os.Stat(made); err == nil {
				t.Errorf("%s: %s was made", name, made)
			}
		}
	}
	// A file that is gone when it is read: kong has looked before.
	gone := ramdiskBuild{UKI: true, Sign: none, Cert: certificate}
	if _, err := gone.program(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--sign: open "+none) {
		t.Errorf("a key that is gone: %v", err)
	}
	gone.Sign, gone.Cert = key, none
	if _, err := gone.program(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--cert: open "+none) {
		t.Errorf("a certificate that is gone: %v", err)
	}
}

// The program that the command builds with --sign and --cert is signed by that key: Debian's sbverify judges it.
func TestRamdiskBuildSigns(t *testing.T) {
	sbverify, err := exec.LookPath("sbverify")
	if err != nil {
		if os.Getenv("IRONYARD_E2E") != "" {
			t.Fatalf("%v (Debian's package sbsigntool)", err)
		}
		t.Skip("NOT RUN: no sbverify, of Debian's package sbsigntool")
	}
	key, certificate, stranger := signingFiles(t)
	out := t.TempDir()
	build, err := parsed(out, "--kernel", "cloud", "--cache", agentvm.KernelCache(), "--uki", "--sign", key, "--cert", certificate)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	program, err := build.program(slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil || program.Signer == nil || said.Len() > 0 {
		t.Fatalf("%+v, %v, %s", program, err, said.String())
	}
	if err := build.build(t.Context(), noAgent(t), program); err != nil {
		t.Fatal(err)
	}
	verify := func(by string) (string, error) {
		text, err := exec.CommandContext(t.Context(), sbverify, "--cert", by, filepath.Join(out, "ironyard.efi")).CombinedOutput()
		return string(text), err
	}
	if text, err := verify(certificate); err != nil || !strings.Contains(text, "Signature verification OK") {
		t.Errorf("sbverify: %v: %s", err, text)
	}
	if text, err := verify(stranger); err == nil {
		t.Errorf("sbverify takes the certificate of another key: %s", text)
	}
}

// noAgent is a file with the header of a program for amd64, which stands in the agent's place where nothing boots.
func noAgent(t *testing.T) string {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var body bytes.Buffer
	if err := binary.Write(&body, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, body.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
