// Package instancefiles is what an instance brings that runs from the network and from no disk: a kernel and a ramdisk, or an
// image of a CD. Each boot interface that can boots them in its own way.
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
		var missing []string
		for _, field := range []string{Kernel, Ramdisk} {
			if n.InstanceString(field) == "" {
				missing = append(missing, "'"+field+"'")
			}
		}
		why := ""
		if source != "" {
			why = " An image_source tells of no kernel here: no image service is asked."
		}
		return driver.Refuse("Cannot validate image information for node %s because one or more parameters are missing from its instance_info and insufficient information is present to boot from a remote volume. Missing are: [%s], or 'boot_iso'.%s",
			n.UUID, strings.Join(missing, ", "), why)
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
	files := map[string]string{}
	for _, field := range []string{Kernel, Ramdisk, ISO} {
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
			return fmt.Errorf("node %s: get instance_info %s into the rack's cache: %w", t.Node.Label(), field, err)
		}
		files[field] = id
	}
	return note(t, files)
}

// Forget notes that the instance boots no file over the network.
func Forget(t *driver.Task) error {
	if len(of(t.Node, t.Facts)) == 0 {
		return nil
	}
	return note(t, map[string]string{})
}

func note(t *driver.Task, files map[string]string) error {
	raw, err := json.Marshal(files)
	if err != nil {
		return err
	}
	t.Facts[fact] = string(raw)
	if !maps.Equal(files, t.Node.InstanceFiles) {
		t.Record.Observe(hardware.Observation{InstanceFiles: files})
	}
	return nil
}

// TellAgain reports which files the instance boots, where a rackd that noted it may have died before it was told.
func TellAgain(t *driver.Task) {
	if files := of(t.Node, t.Facts); files != nil && !maps.Equal(files, t.Node.InstanceFiles) {
		t.Record.Observe(hardware.Observation{InstanceFiles: files})
	}
}

// of are the files that the node's instance boots, by their fields.
func of(n *node.Document, facts map[string]string) map[string]string {
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
	files := of(n, facts)
	file := func(field string) bootorder.File {
		return bootorder.File{URL: n.InstanceString(field), ID: files[field], Kept: true}
	}
	if _, image := files[ISO]; image {
		return bootorder.Image(file(ISO)), true
	}
	if len(files) == 0 {
		return o, false
	}
	// As in Ironic, what the instance asks for comes last, and wins.
	params := slices.Concat([]string{"root=/dev/ram0", "text"}, ownramdisk.InstanceParams(n), strings.Fields(n.InstanceString(Arguments)))
	return bootorder.Instance(bootorder.Load{Kernel: file(Kernel), Initramfs: file(Ramdisk), Params: params}), true
}
