// Package installer is what a node's fields say of an installer that puts its instance on the disk, with Ironic's names for
// Anaconda, and what its machine boots meanwhile.
//
// It may import rackd/driver, rackd/driver/imagefields, rackd/driver/ownramdisk, rackd/bootorder and protocol. Invariants: a deploy
// notes which files it was given, by their checksums, and each boot of the installer gets these, from any rackd; an installer is
// told nothing on its command line but where its files are.
package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/imagefields"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// Fields of instance_info with Ironic's names.
const (
	fieldImage    = "image_source"
	fieldKernel   = "kernel"
	fieldRamdisk  = "ramdisk"
	fieldStage2   = "stage2"
	fieldTemplate = "ks_template"
	// fieldMade is where Ironic keeps the kickstart that it has made. It reads none from there.
	fieldMade = "ks_cfg"
	fieldISO  = "boot_iso"
)

// Fields names what is read or refused of instance_info.
func Fields() []string {
	return append(imagefields.InstanceFields(), fieldKernel, fieldRamdisk, fieldStage2, fieldTemplate, fieldMade, fieldISO, "image_type", ownramdisk.ParamsField)
}

// Templated reports whether the node brings a template of its own.
func Templated(n *node.Document) bool { return n.InstanceString(fieldTemplate) != "" }

// isPath reports whether an image_source is a tree of packages. Ironic knows one by the slash at its end, too.
func isPath(source string) bool { return strings.HasSuffix(source, "/") }

// Validate asks for the files of an installer. The words of the first refusals are Ironic's.
func Validate(n *node.Document) error {
	source := n.InstanceString(fieldImage)
	var missing []string
	for _, field := range []string{fieldKernel, fieldRamdisk} {
		if n.InstanceString(field) == "" {
			missing = append(missing, field)
		}
	}
	switch {
	case source == "":
		return driver.Refuse("Cannot validate image information for node %s because one or more parameters are missing from its instance_info and insufficient information is present to boot from a remote volume. Missing are: ['image_source']", n.UUID)
	case n.InstanceString(fieldISO) != "":
		return driver.Refuse("An 'image_source' and 'boot_iso' parameter may not be specified at the same time.")
	case len(missing) > 0:
		return driver.Refuse("Image %s is missing the following properties: %s", shown(source), strings.Join(missing, ", "))
	case n.InstanceString(fieldStage2) == "" && !isPath(source):
		return driver.Refuse("'stage2_id' is missing from the properties of the OS image %s. The anaconda deploy interface requires this to be set with the OS image or in instance_info['stage2']. ", shown(source))
	case n.InstanceString(fieldMade) != "":
		return fmt.Errorf("node %s: instance_info has %s: rackd makes a kickstart for each boot, with that boot's token: give a template as %s: %w", n.Label(), fieldMade, fieldTemplate, driver.ErrInvalid)
	}
	for _, field := range []string{fieldKernel, fieldRamdisk, fieldStage2, fieldTemplate} {
		if err := check(n, field, n.InstanceString(field)); err != nil {
			return err
		}
	}
	if isPath(source) {
		if u, err := url.Parse(source); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return fmt.Errorf("node %s: instance_info %s ends with a slash, so it is a repository, and must be an http or https URL without a user: %w", n.Label(), fieldImage, driver.ErrInvalid)
		}
		return nil
	}
	_, err := imageOf(n)
	return err
}

func check(n *node.Document, field, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Path == "", u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file", (u.Host == "") != (u.Scheme == "file"):
		return fmt.Errorf("node %s: instance_info %s must be an http, https or file URL; images of Glance are not known here: %w", n.Label(), field, driver.ErrInvalid)
	case u.User != nil:
		return fmt.Errorf("node %s: instance_info %s contains a user name, which is no place for a secret: %w", n.Label(), field, driver.ErrInvalid)
	}
	return nil
}

// shown is a URL without what may be secret.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "of this node"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// imageOf is the image that the installer unpacks. As in Ironic it needs no checksum; then it needs no credentials either.
func imageOf(n *node.Document) (src driver.ImageSource, err error) {
	if n.InstanceString("image_checksum") == "" && n.InstanceString("image_os_hash_value") == "" {
		src.URL = n.InstanceString(fieldImage)
		for _, field := range imagefields.SecretFields() {
			if n.InstanceString(field) != "" {
				return src, fmt.Errorf("node %s: instance_info has %s: an image that needs credentials needs image_checksum, too: %w", n.Label(), field, driver.ErrInvalid)
			}
		}
		return src, check(n, fieldImage, src.URL)
	}
	src, wrong := imagefields.Source(n)
	if len(wrong) > 0 {
		return src, fmt.Errorf("node %s: %s: %w", n.Label(), strings.Join(wrong, "; "), driver.ErrInvalid)
	}
	return src, nil
}

// Files are the IDs of an installer's files in the rack's cache. They are JSON in driver.FactInstaller.
type Files struct {
	Kernel   string `json:"kernel"`
	Ramdisk  string `json:"ramdisk"`
	Stage2   string `json:"stage2,omitempty"`
	Template string `json:"template,omitempty"`
	Image    string `json:"image,omitempty"`
}

// Fetch brings the installer's files into the rack's cache and notes which they are: from now on the ramdisk of the flow is the
// installer. template is the text of the node's own template, empty for none.
func Fetch(ctx context.Context, t *driver.Task) (template string, err error) {
	var f Files
	n := t.Node
	for field, to := range map[string]*string{fieldKernel: &f.Kernel, fieldRamdisk: &f.Ramdisk, fieldStage2: &f.Stage2, fieldTemplate: &f.Template} {
		text := n.InstanceString(field)
		if text == "" {
			continue
		}
		if *to, err = t.Images.Latest(ctx, text); err != nil {
			return "", fmt.Errorf("node %s: get instance_info %s into the rack's cache: %w", n.Label(), field, err)
		}
	}
	if !isPath(n.InstanceString(fieldImage)) {
		if f.Image, err = fetchImage(ctx, t); err != nil {
			return "", fmt.Errorf("node %s: get the image into the rack's cache: %w", n.Label(), err)
		}
		t.Facts[driver.FactImage] = f.Image // neighbours keep a copy
	}
	if f.Template != "" {
		if template, err = read(t, f.Template); err != nil {
			return "", fmt.Errorf("node %s: read instance_info %s: %w", n.Label(), fieldTemplate, err)
		}
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	t.Facts[driver.FactInstaller] = string(raw)
	return template, nil
}

func fetchImage(ctx context.Context, t *driver.Task) (id string, err error) {
	src, err := imageOf(t.Node)
	if err != nil {
		return "", err
	}
	if src.HashValue == "" {
		return t.Images.Latest(ctx, src.URL)
	}
	if !slices.Contains([]string{"sha256", "sha512"}, src.HashAlgo) {
		return "", fmt.Errorf("its checksum is a URL, which this deploy interface does not read: give it in hex: %w", driver.ErrInvalid)
	}
	_, err = t.Images.Prepare(ctx, src)
	return src.ID(), err
}

// maxTemplate bounds a template in the cache that is read, in bytes.
const maxTemplate = 1 << 20

// read returns a small file of the rack's cache.
func read(t *driver.Task, id string) (string, error) {
	files, has := t.Images.(driver.ImageFiles)
	if !has {
		return "", fmt.Errorf("this rackd has no image cache: %w", driver.ErrUnsupported)
	}
	file, done, err := files.File(id)
	if err != nil {
		return "", err
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(file, maxTemplate+1))
	if err == nil && len(text) > maxTemplate {
		err = fmt.Errorf("it has more than %d bytes: %w", maxTemplate, driver.ErrInvalid)
	}
	return string(text), err
}

// Order is what the machine of a node boots while its ramdisk is an installer; ok is false while it is none. An installer that has said
// its last word is booted no more: a machine that restarts by itself before it is switched off would lose what was installed.
func Order(n *node.Document, facts map[string]string) (o bootorder.Order, ok bool) {
	var f Files
	if facts[driver.FactInstaller] == "" || json.Unmarshal([]byte(facts[driver.FactInstaller]), &f) != nil {
		return o, false
	}
	if said, heard := Said(facts); heard && said.Final() {
		return bootorder.Later(fmt.Sprintf("The installer of node %s has ended (%s), and the machine is not yet to boot anything else.", n.Label(), said.Status)), true
	}
	file := func(field, id string) bootorder.File {
		if id == "" {
			return bootorder.File{}
		}
		return bootorder.File{URL: n.InstanceString(field), ID: id, Kept: true}
	}
	i := bootorder.Installer{Template: file(fieldTemplate, f.Template), Stage2: file(fieldStage2, f.Stage2), Image: file(fieldImage, f.Image)}
	if i.Image.URL == "" {
		i.Repository = n.InstanceString(fieldImage)
	} else if i.Ending = ending(i.Image.URL); strings.HasPrefix(f.Image, "sha256-") {
		i.Checksum = strings.TrimPrefix(f.Image, "sha256-")
	}
	return bootorder.Install(bootorder.Load{Kernel: file(fieldKernel, f.Kernel), Initramfs: file(fieldRamdisk, f.Ramdisk), Instance: true, Installer: &i,
		Params: append([]string{"text"}, ownramdisk.InstanceParams(n)...)}), true
}

// ending returns the ending of an image's URL by which installers know what it is. One that tells nothing is a file system.
func ending(source string) string {
	name, _, _ := strings.Cut(source, "?")
	for _, ending := range []string{".tar.gz", ".tar.bz2", ".tar.xz", ".tar", ".tbz", ".tgz", ".txz"} {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return ending
		}
	}
	return ".img"
}

// Said is what the flow's installer has reported; ok is false before its first word.
func Said(facts map[string]string) (r driver.Reported, ok bool) {
	raw := facts[driver.FactReported]
	return r, raw != "" && json.Unmarshal([]byte(raw), &r) == nil
}

// Over notes that the installer has ended: the ramdisk of the flow is the agent's again.
func Over(t *driver.Task) { delete(t.Facts, driver.FactInstaller) }
