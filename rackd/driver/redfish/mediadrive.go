package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/redfish"

	"github.com/ironyard/ironyard/rackd/driver"
)

// A virtual drive takes an image by its action InsertMedia, or, where it has none, by a PATCH of the drive itself.

// pickDrive is the drive that an image of that type goes into: one with an action before one that is patched.
func pickDrive(c *gofish.APIClient, found []*redfish.VirtualMedia, mediaType string) (*redfish.VirtualMedia, error) {
	var why []string
	for _, drive := range found {
		if serves(drive, mediaType) && drive.SupportsMediaInsert {
			return drive, nil
		}
	}
	for _, drive := range found {
		if !serves(drive, mediaType) {
			why = append(why, fmt.Sprintf("%s takes %v", drive.ID, drive.MediaTypes))
			continue
		}
		verbs, err := verbsOf(c, drive.ODataID)
		if err != nil {
			return nil, err
		}
		if verbs == nil || slices.Contains(verbs, http.MethodPatch) {
			return drive, nil
		}
		why = append(why, fmt.Sprintf("%s has no action InsertMedia and allows only %s", drive.ID, strings.Join(verbs, ", ")))
	}
	return nil, fmt.Errorf("it has no virtual drive of type %s that takes images (%s): %w", mediaType, strings.Join(why, "; "), driver.ErrUnsupported)
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
func insertInto(c *gofish.APIClient, m maker, drive *redfish.VirtualMedia, url string) error {
	if !drive.SupportsMediaInsert {
		_, err := patch(c, m, drive.ODataID, map[string]any{"Image": url, "Inserted": true, "WriteProtected": true})
		return err
	}
	body := map[string]any{"Image": url}
	for {
		err := insertBy(drive, body)
		if status(err) != http.StatusBadRequest || !addMissing(body, err.Error(), url) {
			return err
		}
	}
}

// insertBy calls the action of a drive.
func insertBy(drive *redfish.VirtualMedia, body map[string]any) error {
	config := redfish.VirtualMediaConfig{}
	config.Image, _ = body["Image"].(string)
	if v, ok := body["TransferProtocolType"].(string); ok {
		config.TransferProtocolType = redfish.TransferProtocolType(v)
	}
	if v, ok := body["TransferMethod"].(string); ok {
		config.TransferMethod = redfish.TransferMethod(v)
	}
	config.UserName, _ = body["UserName"].(string)
	config.Password, _ = body["Password"].(string)
	return drive.InsertMediaConfig(config)
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
func canEject(drive *redfish.VirtualMedia) bool {
	return drive.SupportsMediaEject || !drive.SupportsMediaInsert
}

// ejectFrom empties a drive.
func ejectFrom(c *gofish.APIClient, m maker, drive *redfish.VirtualMedia) error {
	if drive.SupportsMediaEject {
		return drive.EjectMedia()
	}
	_, err := patch(c, m, drive.ODataID, map[string]any{"Image": nil, "Inserted": false})
	return err
}

// A BMC that has accepted to fill or to empty a drive shows it so within looksAtDrive looks, driveLook apart.
const looksAtDrive = 15

// driveLook is a variable for tests alone.
var driveLook = time.Second

// awaitDrive waits until a drive shows what it was told.
func awaitDrive(ctx context.Context, c *gofish.APIClient, path, told string, is func(*redfish.VirtualMedia) bool) error {
	for range looksAtDrive {
		drive, err := redfish.GetVirtualMedia(c, path)
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
