package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/ironyard/ironyard/rackd/driver"
	"github.com/ironyard/ironyard/rackd/driver/bmc"
)

// A virtual drive takes an image by its action InsertMedia, or, where it has none, by a PATCH of the drive itself.

// pickDrive is the drive that an image of that type at a URL goes into: one with an action before one that is patched. No drive that says
// it loads by other protocols alone is told anything.
func pickDrive(c *gofish.APIClient, found []*virtualDrive, mediaType, url string) (*virtualDrive, error) {
	var why []string
	fits := func(drive *virtualDrive) (bool, error) {
		list, err := transfersOf(c, drive)
		if err != nil || loads(list, url) {
			return err == nil, err
		}
		scheme, _, _ := strings.Cut(url, ":")
		why = append(why, fmt.Sprintf("%s loads by %s alone, and the image is served by %s", drive.ID, strings.Join(list, ", "), strings.ToUpper(scheme)))
		return false, nil
	}
	for _, drive := range found {
		if serves(drive, mediaType) && drive.inserts() {
			if fit, err := fits(drive); fit || err != nil {
				return drive, err
			}
		}
	}
	for _, drive := range found {
		if !serves(drive, mediaType) {
			why = append(why, fmt.Sprintf("%s takes %v", drive.ID, drive.MediaTypes))
			continue
		}
		if drive.inserts() {
			continue // it does not load by this protocol
		}
		verbs, err := verbsOf(c, drive.Path)
		if err != nil {
			return nil, err
		}
		if verbs == nil || slices.Contains(verbs, http.MethodPatch) {
			if fit, err := fits(drive); fit || err != nil {
				return drive, err
			}
			continue
		}
		why = append(why, fmt.Sprintf("%s has no action InsertMedia and allows only %s", drive.ID, strings.Join(verbs, ", ")))
	}
	return nil, fmt.Errorf("it has no virtual drive of type %s that takes images (%s): %w", mediaType, strings.Join(why, "; "), driver.ErrUnsupported)
}

// transferType is the parameter, and of drives without an action the property, that names a drive's protocol.
const transferType = "TransferProtocolType"

// loads reports whether a drive that lists these protocols, if any, may load from a URL. BMCs list HTTP or HTTPS where they take both.
// Which of the two it takes the BMC says when it is told.
func loads(list []string, url string) bool {
	scheme, _, _ := strings.Cut(url, ":")
	return len(list) == 0 || slices.ContainsFunc(list, func(p string) bool {
		return strings.EqualFold(p, scheme) || strings.HasPrefix(scheme, "http") && (strings.EqualFold(p, "HTTP") || strings.EqualFold(p, "HTTPS"))
	})
}

// transfersOf are the protocols by which a drive says it loads images; nil where it does not say.
func transfersOf(c *gofish.APIClient, drive *virtualDrive) ([]string, error) {
	var said struct {
		Allowed []string `json:"TransferProtocolType@Redfish.AllowableValues"`
		Actions struct {
			Insert struct {
				Allowed []string `json:"TransferProtocolType@Redfish.AllowableValues"`
				Info    string   `json:"@Redfish.ActionInfo"`
			} `json:"#VirtualMedia.InsertMedia"`
		}
	}
	if err := read(c, drive.Path, &said); err != nil {
		return nil, forgiven(err)
	}
	list := said.Allowed
	if drive.inserts() {
		list = said.Actions.Insert.Allowed
	}
	if len(list) > 0 || said.Actions.Insert.Info == "" {
		return list, nil
	}
	var info struct {
		Parameters []struct {
			Name            string
			AllowableValues []string
		}
	}
	if err := read(c, said.Actions.Insert.Info, &info); err != nil {
		return nil, forgiven(err)
	}
	for _, p := range info.Parameters {
		if p.Name == transferType {
			return p.AllowableValues, nil
		}
	}
	return nil, nil
}

// forgiven is nil for the answer of a BMC that has not what it promises, or has it in another form. It then lists nothing.
func forgiven(err error) error {
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); odd || status(err) == http.StatusNotFound {
		return nil
	}
	return err
}

// verbsOf are the HTTP methods that a resource allows, nil where the BMC does not say.
func verbsOf(c *gofish.APIClient, path string) (verbs []string, err error) {
	resp, err := c.Get(path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for _, line := range resp.Header.Values("Allow") {
		for verb := range strings.SplitSeq(line, ",") {
			verbs = append(verbs, strings.ToUpper(strings.TrimSpace(verb)))
		}
	}
	return verbs, nil
}

// insertInto puts an image into a drive. BMCs that want to be told more say what, and are told.
func insertInto(c *gofish.APIClient, m maker, drive *virtualDrive, url string) error {
	if !drive.inserts() {
		_, err := patch(c, m, drive.Path, map[string]any{"Image": url, "Inserted": true, "WriteProtected": true})
		return err
	}
	body := map[string]any{"Image": url}
	for {
		err := call(c, drive.Actions.Insert.Target, drive.tag, body)
		if status(err) != http.StatusBadRequest || !addMissing(body, err.Error(), url) {
			return err
		}
	}
}

// addMissing adds the first parameter that the BMC asks for and that the body does not have. It reports whether there was one.
func addMissing(body map[string]any, said, url string) bool {
	for _, p := range insertParameters {
		if _, there := body[p.name]; there || !strings.Contains(said, p.name) {
			continue
		}
		body[p.name] = p.value
		if p.name == "TransferProtocolType" && strings.HasPrefix(url, "https:") {
			body[p.name] = "HTTPS"
		}
		return true
	}
	return false
}

// canEject reports whether a drive has an action for it, or is patched in both ways.
func canEject(drive *virtualDrive) bool {
	return drive.ejects() || !drive.inserts()
}

// ejectFrom empties a drive.
func ejectFrom(c *gofish.APIClient, m maker, drive *virtualDrive) error {
	if drive.ejects() {
		return call(c, drive.Actions.Eject.Target, drive.tag, struct{}{})
	}
	_, err := patch(c, m, drive.Path, map[string]any{"Image": nil, "Inserted": false})
	return err
}

// problemOf is why the machine cannot read the image in a drive, as the BMC says; empty: it says nothing. A drive that is not connected
// and is otherwise well says nothing: some BMCs always show it so.
func problemOf(c *gofish.APIClient, drive *virtualDrive) string {
	if !drive.Inserted && drive.Image == "" || drive.ConnectedVia != schemas.NotConnectedConnectedVia {
		return ""
	}
	var said struct {
		Status struct {
			Health     string
			Conditions []struct{ Message string }
		}
	}
	if read(c, drive.Path, &said) != nil || said.Status.Health == "" || said.Status.Health == string(schemas.OKHealth) {
		return ""
	}
	for _, condition := range said.Status.Conditions {
		if condition.Message != "" {
			return bmc.Clean(condition.Message) // it may name the medium's address, and stands in the node's history
		}
	}
	return fmt.Sprintf("it is not connected, and its health is %s", said.Status.Health)
}

// A BMC that has accepted to fill or to empty a drive shows it so within looksAtDrive looks, driveLook apart.
const looksAtDrive = 15

// driveLook is a variable for tests alone.
var driveLook = time.Second

// awaitDrive waits until a drive shows what it was told.
func awaitDrive(ctx context.Context, c *gofish.APIClient, path, told string, is func(*virtualDrive) bool) error {
	for range looksAtDrive {
		drive, err := readDrive(c, path)
		if err != nil {
			return fmt.Errorf("read virtual drive %s back: %w", path, err)
		}
		if is(drive) {
			return nil
		}
		if err := driver.Pause(ctx, driveLook); err != nil {
			return err
		}
	}
	return fmt.Errorf("virtual drive %s was told %s and the BMC accepted, but %s later it does not show so", path, told, looksAtDrive*driveLook)
}
