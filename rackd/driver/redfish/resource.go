package redfish

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// What rackd reads of a BMC's resources is declared here and where it is used, not taken from gofish's types of them. Those hold a
// whole resource: a BMC that has one property in another form than the standard's could not be read at all. And gofish's calls of
// actions send a write that a BMC refused for its tag once more, which the driver has not decided on.

// System is a machine as its BMC shows it.
type System struct {
	ref
	BIOSVersion                                  string `json:"BiosVersion"`
	Manufacturer, Model, SerialNumber, SKU, UUID string
	PowerState                                   schemas.PowerState
	Status                                       struct{ Health, HealthRollup schemas.Health }
	Boot                                         struct {
		BootSourceOverrideTarget schemas.BootSource
		BootSourceOverrideMode   schemas.BootSourceOverrideMode
	}
	BootProgress struct{ LastState schemas.BootProgressTypes }
	Links        struct{ ManagedBy []ref }
	VirtualMedia ref
	SecureBoot   ref
	Actions      struct {
		Reset struct {
			action
			Allowed []schemas.ResetType `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	}

	raw json.RawMessage // the whole resource
	tag string          // the answer's ETag
	c   *gofish.APIClient
}

// action is where an action is called.
type action struct {
	Target string `json:"target"`
}

// readSystem reads a system.
func readSystem(c *gofish.APIClient, path string) (*System, error) {
	raw, tag, err := tagged(c, path)
	if err != nil {
		return nil, err
	}
	s := &System{ref: ref{path}, raw: raw, tag: tag, c: c}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("its answer at %s cannot be read: %w", path, err)
	}
	return s, nil
}

// virtualDrive is a drive for virtual media.
type virtualDrive struct {
	ref
	ID           string `json:"Id"`
	Image        string
	Inserted     bool // also false where the BMC does not say
	MediaTypes   []schemas.VirtualMediaType
	ConnectedVia schemas.ConnectedVia
	Actions      struct {
		Insert action `json:"#VirtualMedia.InsertMedia"`
		Eject  action `json:"#VirtualMedia.EjectMedia"`
	}

	tag string // the answer's ETag
}

// inserts reports whether the drive has an action that fills it.
func (d *virtualDrive) inserts() bool { return d.Actions.Insert.Target != "" }

// ejects reports whether it has one that empties it.
func (d *virtualDrive) ejects() bool { return d.Actions.Eject.Target != "" }

// readDrive reads a virtual drive.
func readDrive(c *gofish.APIClient, path string) (*virtualDrive, error) {
	raw, tag, err := tagged(c, path)
	if err != nil {
		return nil, err
	}
	d := &virtualDrive{ref: ref{path}, tag: tag}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("its answer at %s cannot be read: %w", path, err)
	}
	return d, nil
}

// readDrives reads the drives of a collection, page by page. A path without one is of no drives.
func readDrives(c *gofish.APIClient, path string) (list []*virtualDrive, err error) {
	for path != "" {
		page, err := schemas.GetCollection(c, path)
		if err != nil {
			return list, fmt.Errorf("%s: %w", path, err)
		}
		for _, at := range page.ItemLinks {
			drive, err := readDrive(c, at)
			if err != nil {
				return list, fmt.Errorf("%s: %w", at, err)
			}
			list = append(list, drive)
		}
		path = page.MembersNextLink
	}
	return list, nil
}

// tagged reads a resource with the entity tag that its answer has.
func tagged(c *gofish.APIClient, path string) (raw json.RawMessage, tag string, err error) {
	resp, err := c.Get(path)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil {
		return nil, "", fmt.Errorf("its answer at %s cannot be read: %w", path, err)
	}
	return raw, resp.Header.Get("ETag"), nil
}

// call calls an action once. A tag goes along as the one that its resource must still have, an empty one does not.
func call(c *gofish.APIClient, target, tag string, body any) error {
	headers := map[string]string{}
	if tag != "" {
		headers["If-Match"] = tag
	}
	resp, err := c.PostWithHeaders(target, body, headers)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// refusal is what a BMC said when it refused. gofish reads nothing of an answer that has a property in another form than the standard's:
// of such a one the texts are read here.
func refusal(err error) (*schemas.Error, bool) {
	refused, is := errors.AsType[*schemas.Error](err)
	if !is || refused.Code != "" || len(refused.ExtendedInfos) > 0 {
		return refused, is
	}
	var said struct {
		Error struct {
			Code     string `json:"code"`
			Message  string `json:"message"`
			Extended []struct {
				MessageID           string `json:"MessageId"`
				Message, Resolution string
			} `json:"@Message.ExtendedInfo"`
		} `json:"error"`
	}
	if json.Unmarshal([]byte(refused.Message), &said) != nil || said.Error.Message == "" && len(said.Error.Extended) == 0 {
		return refused, true
	}
	refused.Code, refused.Message = said.Error.Code, said.Error.Message
	for _, info := range said.Error.Extended {
		refused.ExtendedInfos = append(refused.ExtendedInfos,
			schemas.ErrExtendedInfo{MessageID: info.MessageID, Message: info.Message, Resolution: info.Resolution})
	}
	return refused, true
}

// status is the HTTP status of a refusal, 0 when err is none.
func status(err error) int {
	if refused, is := errors.AsType[*schemas.Error](err); is {
		return refused.HTTPReturnedStatusCode
	}
	return 0
}
