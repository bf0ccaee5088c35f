// Package instancefiles is what an instance brings that starts from no disk: a kernel and a ramdisk, or an image of a CD. Each boot
// interface that can boots them in its own way, over the network or from a medium. The system that a kernel starts may be on a disk all
// the same.
//
// It may import rackd/driver, rackd/driver/ownramdisk, rackd/bootorder and protocol. Invariants: a deploy notes which files it was
// given, by their checksums, and the instance boots these each time; an instance is told nothing that an agent is told.
package instancefiles

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/protocol/agentapi"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/bootorder"
	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/ownramdisk"
)

// Fields of instance_info with Ironic's names.
const (
	Kernel    = "kernel"
	Ramdisk   = "ramdisk"
	ISO       = "boot_iso"
	Arguments = "ramdisk_kernel_arguments"
)

// Sentinel of instance_info says to the deploy interface "autodetect" that the instance is a ramdisk, with Ironic's name.
const Sentinel = "ironic_ramdisk_deploy"

// Asked reports whether instance_info asks the deploy interface "autodetect" to boot the instance's files, as in Ironic.
func Asked(n *node.Document) bool {
	if slices.Contains([]string{"", "0", "false", "False"}, n.InstanceString(Sentinel)) {
		return false
	}
	return Given(n)
}

// Counts reports whether the node's deploy interface boots the files of instance_info: "ramdisk" does, also where "autodetect" has chosen
// it. Beside another one they may be left over from an instance before, and boot nothing.
func Counts(n *node.Document) bool {
	deploy := n.Interface("deploy")
	return deploy == "ramdisk" || deploy == "autodetect" && Asked(n)
}

// Given reports whether instance_info names files to boot: an image of a CD, or a kernel and a ramdisk.
func Given(n *node.Document) bool {
	return n.InstanceString(ISO) != "" || n.InstanceString(Kernel) != "" && n.InstanceString(Ramdisk) != ""
}

// fieldImage of instance_info names an image that is written to a disk.
const fieldImage = "image_source"

// Fields names what is read of instance_info.
func Fields() []string { return []string{Kernel, Ramdisk, ISO, Arguments, fieldImage} }

// Validate asks for an image of a CD, or for a kernel and a ramdisk. The words of the first refusals are Ironic's.
func Validate(n *node.Document) error {
	iso, kernel, ramdisk := n.InstanceString(ISO), n.InstanceString(Kernel), n.InstanceString(Ramdisk)
	source := n.InstanceString(fieldImage)
	switch {
	case iso != "" && source != "":
		return driver.Refuse("An 'image_source' and 'boot_iso' parameter may not be specified at the same time.")
	case iso == "" && (kernel == "" || ramdisk == ""):
		why := ""
		if source != "" {
			why = " An image_source tells of no kernel here: no image service is asked."
		}
		return driver.Refuse("Cannot validate image information for node %s because one or more parameters are missing from its instance_info and insufficient information is present to boot from a remote volume. Missing are: [%s], or 'boot_iso'.%s",
			n.UUID, strings.Join(absent(n), ", "), why)
	case iso != "" && (kernel != "" || ramdisk != ""):
		return fmt.Errorf("node %s: instance_info has %s, and %s or %s: an instance boots either an image or a kernel: remove one of them: %w", n.Label(), ISO, Kernel, Ramdisk, driver.ErrInvalid)
	}
	for _, field := range []string{Kernel, Ramdisk, ISO} {
		if err := check(n, field); err != nil {
			return err
		}
	}
	return validateArguments(n)
}

// ValidatePair asks for a kernel and a ramdisk, of an instance whose system is on a disk. The words of the first refusal are Ironic's.
func ValidatePair(n *node.Document) error {
	if missing := absent(n); len(missing) > 0 {
		return driver.Refuse("Cannot validate image information for node %s because one or more parameters are missing from its instance_info. Missing are: [%s]. The capability boot_option is netboot, so a partition image starts by a kernel and a ramdisk from the network.",
			n.UUID, strings.Join(missing, ", "))
	}
	for _, field := range []string{Kernel, Ramdisk} {
		if err := check(n, field); err != nil {
			return err
		}
	}
	return validateArguments(n)
}

// absent are the names, in quotes, of those of an instance's kernel and ramdisk that it does not name.
func absent(n *node.Document) (missing []string) {
	for _, field := range []string{Kernel, Ramdisk} {
		if n.InstanceString(field) == "" {
			missing = append(missing, "'"+field+"'")
		}
	}
	return missing
}

func check(n *node.Document, field string) error {
	text := n.InstanceString(field)
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Path == "", u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file" && u.Scheme != "tftp", (u.Host == "") != (u.Scheme == "file"):
		return fmt.Errorf("node %s: instance_info %s must be an http, https, tftp or file URL; images of Glance are not known here: %w", n.Label(), field, driver.ErrInvalid)
	case u.Scheme == "tftp" && field == ISO:
		return fmt.Errorf("node %s: instance_info %s is a URL of scheme tftp, by which no drive can be read: give http, https or file: %w", n.Label(), field, driver.ErrInvalid)
	case u.User != nil:
		return fmt.Errorf("node %s: instance_info %s contains a user name: boot scripts are readable on the machines' network: %w", n.Label(), field, driver.ErrInvalid)
	}
	return nil
}

// validateArguments bounds the parameters of the instance's kernel. What they say is the instance's own.
func validateArguments(n *node.Document) error {
	text, is := n.InstanceInfo[Arguments].(string)
	switch {
	case !is && n.InstanceInfo[Arguments] != nil:
		return fmt.Errorf("node %s: instance_info %s is %.60v: give a text: %w", n.Label(), Arguments, n.InstanceInfo[Arguments], driver.ErrInvalid)
	case len(text) > agentapi.MaxOwnParams:
		return fmt.Errorf("node %s: instance_info %s has %d bytes, and at most %d fit on the kernel's command line: %w", n.Label(), Arguments, len(text), agentapi.MaxOwnParams, driver.ErrInvalid)
	case agentapi.Spoiled(text) != "":
		return fmt.Errorf("node %s: instance_info %s holds %q, which boot loaders read as their own, so that it does not reach the kernel: remove it: %w", n.Label(), Arguments, agentapi.Spoiled(text), driver.ErrInvalid)
	case strings.Count(text, `"`)%2 != 0:
		return fmt.Errorf("node %s: instance_info %s has a quote that does not end: %w", n.Label(), Arguments, driver.ErrInvalid)
	}
	return nil
}

// fact is where a flow keeps the files of the instance that it makes, JSON of what node.Document has as InstanceFiles. It goes before
// the document's, which may be those of the instance before.
const fact = "instance_files"

// Fetch brings the instance's files into the rack's cache and notes which they are. What only TFTP gives, the machine loads
// by itself each time.
func Fetch(ctx context.Context, t *driver.Task) error {
	files, err := latest(ctx, t, Kernel, Ramdisk, ISO)
	if err != nil {
		return err
	}
	return note(t, files)
}

// latest brings the files of the fields into the rack's cache and returns their ids.
func latest(ctx context.Context, t *driver.Task, fields ...string) (map[string]string, error) {
	files := map[string]string{}
	for _, field := range fields {
		text := t.Node.InstanceString(field)
		if text == "" {
			continue
		}
		files[field] = ""
		if u, err := url.Parse(text); err != nil || u.Scheme == "tftp" {
			continue
		}
		id, err := t.Images.Latest(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("node %s: get instance_info %s into the rack's cache: %w", t.Node.Label(), field, err)
		}
		files[field] = id
	}
	return files, nil
}

// FetchForMedium is Fetch for an instance whose machine reads media from rackds: made of its kernel and ramdisk, if it has these,
// and its config drive, if drive has its SHA-256. An image of a CD its BMC reads at its own address.
func FetchForMedium(ctx context.Context, t *driver.Task, drive string) error {
	files, err := latest(ctx, t, Kernel, Ramdisk)
	if err != nil {
		return err
	}
	if len(files) == 0 && drive == "" {
		return Forget(t)
	}
	files[node.FileMedium] = t.WorkID
	if drive != "" {
		files[node.FileDrive] = drive
		files[node.FileDriveOf], files[node.FileDriveName] = t.Node.Instance(), t.Node.Name
	}
	if was := Of(t.Node, t.Facts); was[node.FileMedium] == t.WorkID && was[node.FileMediumAt] != "" {
		files[node.FileMediumAt] = was[node.FileMediumAt] // the step runs again
	}
	return note(t, files)
}

// NoteMediumAt notes the base URL at which the BMC reads the instance's media.
func NoteMediumAt(t *driver.Task, base string) error {
	files := maps.Clone(Of(t.Node, t.Facts))
	if files[node.FileMediumAt] == base {
		return nil
	}
	files[node.FileMediumAt] = base
	return note(t, files)
}

// Bring brings the instance's kernel and ramdisk back into this rackd's cache, if they are no longer there. They must be those that
// the deploy was given.
func Bring(ctx context.Context, t *driver.Task) error {
	files := Of(t.Node, t.Facts)
	for _, field := range []string{Kernel, Ramdisk} {
		algo, value, ok := strings.Cut(files[field], "-")
		if !ok {
			continue
		}
		if _, err := t.Images.Prepare(ctx, driver.ImageSource{URL: t.Node.InstanceString(field), HashAlgo: algo, HashValue: value, Given: files[field]}); err != nil {
			return fmt.Errorf("node %s: bring the instance's %s back into the rack's cache: %w", t.Node.Label(), field, err)
		}
	}
	return nil
}

// root is where the files of an instance have the UUID of the file system that its kernel mounts; none: the kernel runs in its ramdisk.
const root = "root_uuid"

// uuids is what a file system's UUID is made of.
var uuids = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// factAhead is where a flow keeps the files of an instance that its machine is not to boot yet, as fact has them.
const factAhead = "instance_files_ahead"

// FetchAhead is Fetch while the machine may still run the instance of before, which is to boot its own files should the flow end before it
// has touched the machine. GiveAhead notes what it has brought.
func FetchAhead(ctx context.Context, t *driver.Task) error {
	apart, _ := Apart(t)
	if err := Fetch(ctx, apart); err != nil {
		return err
	}
	t.Facts[factAhead] = apart.Facts[fact]
	return nil
}

// GiveAhead notes what FetchAhead has brought, once the instance of before is given up.
func GiveAhead(t *driver.Task) error {
	ahead := t.Facts[factAhead]
	if ahead == "" {
		return nil
	}
	var files map[string]string
	if err := json.Unmarshal([]byte(ahead), &files); err != nil {
		return fmt.Errorf("node %s: the files of its instance in the checkpoint cannot be read: %w", t.Node.Label(), err)
	}
	delete(t.Facts, factAhead)
	return note(t, files)
}

// MountRoot notes that the kernel which Fetch or FetchAhead has brought mounts the file system with this UUID as its root.
func MountRoot(t *driver.Task, uuid string) error {
	if !uuids.MatchString(uuid) {
		return fmt.Errorf("node %s: %.80q is no UUID of a file system, and the instance's kernel is to mount its root by it", t.Node.Label(), uuid)
	}
	if err := GiveAhead(t); err != nil {
		return err
	}
	files := maps.Clone(Of(t.Node, t.Facts))
	if files == nil {
		files = map[string]string{}
	}
	files[root] = uuid
	return note(t, files)
}

// NamesRoot reports whether the instance itself says what its kernel mounts as root.
func NamesRoot(n *node.Document) bool {
	return slices.ContainsFunc(strings.Fields(n.InstanceString(Arguments)), func(p string) bool { return strings.HasPrefix(p, "root=") })
}

// Forget notes that rackds serve the instance no file.
func Forget(t *driver.Task) error {
	if len(Of(t.Node, t.Facts)) == 0 {
		return nil
	}
	return note(t, map[string]string{})
}

func note(t *driver.Task, files map[string]string) error {
	raw, err := json.Marshal(files)
	if err != nil {
		return err
	}
	was := Of(t.Node, t.Facts) // of which the node's document may not tell yet
	t.Facts[fact] = string(raw)
	if !maps.Equal(files, t.Node.InstanceFiles) || !maps.Equal(files, was) {
		t.Record.Observe(hardware.Observation{InstanceFiles: files})
	}
	return nil
}

// Apart is a copy of t by which the files of an instance are fetched while the machine may still run the instance of before: that one
// keeps its own, should the flow end before it has sent anything. give notes them with t, once the machine is to get them.
func Apart(t *driver.Task) (apart *driver.Task, give func() error) {
	copied := *t
	copied.Facts, copied.Record = maps.Clone(t.Facts), unseen{t.Record}
	return &copied, func() error {
		if _, noted := copied.Facts[fact]; !noted {
			return nil
		}
		return note(t, Of(t.Node, copied.Facts))
	}
}

// unseen tells all but the files of an instance.
type unseen struct{ driver.Recorder }

func (u unseen) Observe(o hardware.Observation) {
	if o.InstanceFiles = nil; !o.Empty() {
		u.Recorder.Observe(o)
	}
}

// TellAgain reports which files the instance boots, where a rackd that noted it may have died before it was told.
func TellAgain(t *driver.Task) {
	if files := Of(t.Node, t.Facts); files != nil && !maps.Equal(files, t.Node.InstanceFiles) {
		t.Record.Observe(hardware.Observation{InstanceFiles: files})
	}
}

// Of are the files that the node's instance boots, by their fields, and what is noted of its media (node.FileMedium).
func Of(n *node.Document, facts map[string]string) map[string]string {
	raw, noted := facts[fact]
	if !noted {
		return n.InstanceFiles
	}
	var files map[string]string
	if json.Unmarshal([]byte(raw), &files) != nil {
		return n.InstanceFiles
	}
	return files
}

// Order is what the machine of an instance that boots files loads; ok is false for an instance that boots none. facts are those
// of the newest work, nil for none.
func Order(n *node.Document, facts map[string]string) (o bootorder.Order, ok bool) {
	files := Of(n, facts)
	file := func(field string) bootorder.File {
		return bootorder.File{URL: n.InstanceString(field), ID: files[field], Kept: true}
	}
	if _, image := files[ISO]; image {
		return bootorder.Image(file(ISO)), true
	}
	if _, kernel := files[Kernel]; !kernel {
		return o, false
	}
	// As in Ironic, what the instance asks for comes last, and wins.
	start := []string{"root=/dev/ram0", "text"}
	if uuid := files[root]; uuid != "" {
		start = []string{"root=UUID=" + uuid, "ro", "text"}
	}
	params := slices.Concat(start, ownramdisk.InstanceParams(n), strings.Fields(n.InstanceString(Arguments)))
	return bootorder.Instance(bootorder.Load{Kernel: file(Kernel), Initramfs: file(Ramdisk), Params: params}), true
}
