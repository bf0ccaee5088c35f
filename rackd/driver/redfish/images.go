package redfish

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"

	"github.com/ironyard/ironyard/protocol/node"
	"github.com/ironyard/ironyard/rackd/driver"
)

// Ironic's update_firmware names no component: the BMC tells by the file what it is for. The rack fetches each file, compares it with its
// checksum and serves it. Any component that shows another version than before tells that it was written.

// argFirmwareImages is the step's argument.
const argFirmwareImages = "firmware_images"

// anyOfIt is the component of an update that names none.
const anyOfIt = "machine"

// byImages makes a step update_firmware.
func (f Firmware) byImages(s *driver.Step) {
	s.Takes = map[string]driver.Argument{argFirmwareImages: {Required: true,
		Description: "A list of firmware images in the order in which to write them, each with url and checksum (sha256 or sha512). " +
			"The rack fetches each image and compares it with its checksum, and the BMC loads it from the rack. " +
			"source may be http or local, which are the same here. wait says for how many seconds the BMC is left alone after an image."}}
	s.Check = func(_ *node.Document, args map[string]any) error {
		_, err := firmwareImages(args[argFirmwareImages])
		return err
	}
	s.Run = f.updateByImages
}

// firmwareImage is an image that is asked for.
type firmwareImage struct {
	source driver.ImageSource
	update update
}

// updateByImages has the rack fetch all images before the BMC is told of the first one.
func (f Firmware) updateByImages(ctx context.Context, t *driver.Task) (driver.Outcome, error) {
	images, err := firmwareImages(t.Args[argFirmwareImages])
	if err != nil {
		return driver.Outcome{}, err
	}
	var list []update
	for at, i := range images {
		urls, err := t.Images.Prepare(ctx, i.source)
		if err != nil {
			return driver.Outcome{}, fmt.Errorf("node %s: fetch firmware image %d, %s: %w", t.Node.Label(), at+1, i.update.shown, err)
		}
		if len(urls) == 0 {
			return driver.Outcome{}, fmt.Errorf("node %s: update the firmware: the rack has no address to load the image from", t.Node.Label())
		}
		i.update.URL = urls[0]
		list = append(list, i.update)
	}
	return f.carryOut(ctx, t, list)
}

// firmwareImages reads the argument, and refuses it in the words of Ironic's schema. It repeats no URL, which may hold a password.
func firmwareImages(arg any) (images []firmwareImage, err error) {
	items, is := arg.([]any)
	if !is || len(items) == 0 {
		return nil, driver.Refuse("Invalid firmware update. Errors: firmware_images is not a list of images, or is empty")
	}
	for at, item := range items {
		image, wrong := firmwareImageOf(item)
		if wrong != "" {
			return nil, driver.Refuse("Invalid firmware update: image %d. Errors: %s", at+1, wrong)
		}
		images = append(images, image)
	}
	return images, nil
}

// firmwareImageOf reads one image, and says what is wrong with it.
func firmwareImageOf(item any) (i firmwareImage, wrong string) {
	m, is := item.(map[string]any)
	if !is {
		return i, "it is not of type 'object'"
	}
	for _, name := range []string{"url", "checksum", "source"} {
		switch v, given := m[name]; v := v.(type) {
		case string:
			if v == "" {
				return i, fmt.Sprintf("'%s' should be non-empty", name)
			}
		default:
			if given {
				return i, fmt.Sprintf("'%s' is not of type 'string'", name)
			}
			if name != "source" {
				return i, fmt.Sprintf("'%s' is a required property", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains([]string{"url", "checksum", "source", "wait"}, name) {
			return i, fmt.Sprintf("Additional properties are not allowed ('%.40s' was unexpected)", name)
		}
	}
	if wrong := sourceOf(m["source"]); wrong != "" {
		return i, wrong
	}
	if v, given := m["wait"]; given {
		seconds := number(v)
		if f, is := v.(float64); seconds < 1 || seconds > int(longestWait.Seconds()) || is && f != float64(seconds) {
			return i, fmt.Sprintf("'wait' is %.60v: give whole seconds, from 1 to %.0f", v, longestWait.Seconds())
		}
		i.update.rest = 1 + (seconds-1)/int(jobPoll.Seconds())
		i.update.wait = max(bmcShows, i.update.rest)
	}
	i.source = driver.ImageSource{URL: m["url"].(string), HashValue: strings.ToLower(m["checksum"].(string))}
	i.source.HashAlgo = map[int]string{64: "sha256", 128: "sha512"}[len(i.source.HashValue)]
	at, err := url.Parse(i.source.URL)
	switch {
	case i.source.HashAlgo == "" || strings.Trim(i.source.HashValue, "0123456789abcdef") != "":
		return i, fmt.Sprintf("'checksum' has %d characters, and is no sha256 (64 hexadecimal digits) and no sha512 (128). A sha1 or md5 proves nothing, and is not taken",
			len(i.source.HashValue))
	case err != nil || at.Scheme == "":
		return i, "'url' is no absolute URL"
	case strings.EqualFold(at.Scheme, "swift"):
		return i, "swift is not supported for 'url': no rack asks Swift. Give the object's temporary URL by https"
	case !slices.Contains([]string{"http", "https", "file"}, strings.ToLower(at.Scheme)):
		return i, fmt.Sprintf("%.20s is not supported for 'url': give http, https or file", at.Scheme)
	case at.Scheme != "file" && at.Host == "":
		return i, "'url' names no host"
	}
	i.update.Component, i.update.shown = anyOfIt, at.Host+at.Path
	return i, ""
}

// sourceOf says what is wrong with where the BMC is to load an image from. It always loads from the rack.
func sourceOf(v any) (wrong string) {
	switch v {
	case nil, "http", "local":
		return ""
	case "swift":
		return "'swift' is not supported for 'source': no rack puts files into Swift. Leave it out: the BMC loads the image from the rack"
	}
	return fmt.Sprintf("'%.40v' is not one of ['http', 'local', 'swift']", v)
}

// shownVersions are the versions of all components, by the names of BIOS and BMC and by the paths of parts.
type shownVersions map[string]shownVersion

type shownVersion struct {
	Version string `json:"v"`
	// Told is how many controllers tell it, of an adapter.
	Told int `json:"n,omitempty"`
}

// anyShown reads all versions. It is an ErrUnsupported where there are none: rackd could not see that anything was written.
func anyShown(c *gofish.APIClient, s *System) (firmwareShown, error) {
	list, err := versions(s)
	if err != nil {
		return firmwareShown{}, err
	}
	v, err := partsOf(c, s)
	if err != nil {
		return firmwareShown{}, err
	}
	all := shownVersions{}
	for _, one := range list {
		all[one.Name] = shownVersion{Version: one.Current}
	}
	for _, p := range v.list {
		if p.Current != "" {
			all[p.path] = shownVersion{p.Current, p.told}
		}
	}
	if len(all) == 0 {
		return firmwareShown{}, fmt.Errorf("it reports the version of no component, so that rackd could not see whether one was written: %w", driver.ErrUnsupported)
	}
	text, err := json.Marshal(all)
	return firmwareShown{version: string(text), all: all}, err
}

// news are the components that show another version than before. One that did not show then, or does not now, tells nothing.
func (s firmwareShown) news(was string) (list []string) {
	var before shownVersions
	if json.Unmarshal([]byte(was), &before) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		now, then := s.all[name], before[name]
		one := firmwareShown{version: now.Version, several: then.Told > 1}
		if then.Version != "" && now.Told >= then.Told && one.changed(then.Version) {
			list = append(list, name)
		}
	}
	return list
}

// differs reports whether what shows tells that an order was taken which the BMC seemed to refuse.
func (s firmwareShown) differs(was string) bool {
	if s.all != nil {
		return s.changed(was)
	}
	return s.version != was
}
