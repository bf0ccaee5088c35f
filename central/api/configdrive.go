package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/provision"
)

// readConfigDrive returns a config drive as it travels to the rack: a URL, a
// base64 text or a JSON object (which begins with a brace); empty for none.
func readConfigDrive(v microversion.Version, e provision.Event, drive any) (string, error) {
	if drive == nil || drive == "" {
		return "", nil
	}
	switch {
	case e == provision.EventDeploy:
	case e == provision.EventRebuild && v >= rebuildDriveSince:
	case e == provision.EventRebuild:
		return "", wire.Invalid("A config drive on rebuild needs API version %s or newer", rebuildDriveSince)
	default:
		return "", wire.Invalid("Adding a config drive is only supported when setting provision state to active, rebuild")
	}
	switch drive := drive.(type) {
	case string:
		return drive, checkDriveText(drive)
	case map[string]any:
		if v < driveObjectSince {
			return "", wire.Invalid("Providing a JSON object for configdrive is only supported starting with API version %s", driveObjectSince)
		}
		parts := map[string]byte{}
		for name, part := range drive {
			parts[name] = kindByte(part)
		}
		if err := checkDriveObject(v, parts); err != nil {
			return "", err
		}
		text, err := json.Marshal(drive)
		return string(text), err
	case wire.Raw:
		if v < driveObjectSince {
			return "", wire.Invalid("Providing a JSON object for configdrive is only supported starting with API version %s", driveObjectSince)
		}
		parts := map[string]byte{}
		for name, part := range drive.Members() {
			if _, twice := parts[name]; twice {
				return "", wire.Invalid("Invalid configdrive format: it has '%.80s' twice", name)
			}
			parts[name] = part.Kind()
		}
		if err := checkDriveObject(v, parts); err != nil {
			return "", err
		}
		text, _ := drive.Compact(make([]byte, 0, len(drive)), len(drive))
		return string(text), nil
	}
	return "", wire.Invalid("Invalid configdrive: it must be a text or an object")
}

// base64Letters are those of base64, with the white space that texts of it are broken by.
const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n\r\t "

// checkDriveText admits a URL that a rack can fetch, or the letters of base64: whether those
// are a drive shows when it is made.
func checkDriveText(text string) error {
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return wire.Invalid("Invalid configdrive: its URL must be http or https, with a host")
		}
		return nil
	}
	if strings.ContainsFunc(text, func(c rune) bool { return !strings.ContainsRune(base64Letters, c) }) {
		return wire.Invalid("Invalid configdrive format: it is neither a JSON, nor a URL, nor a base64 string")
	}
	return nil
}

// kindByte is what wire.Raw.Kind says of a value that was decoded; 0 for numbers and truths.
func kindByte(v any) byte {
	switch v.(type) {
	case nil:
		return 'n'
	case map[string]any:
		return '{'
	case []any:
		return '['
	case string:
		return '"'
	}
	return 0
}

// checkDriveObject checks a config drive by the kinds of its parts.
func checkDriveObject(v microversion.Version, drive map[string]byte) error {
	parts := []string{"meta_data", "network_data", "user_data", "vendor_data"}
	for _, name := range slices.Sorted(maps.Keys(drive)) {
		if !slices.Contains(parts, name) {
			return wire.Invalid("Invalid configdrive format: Additional properties are not allowed ('%.80s' was unexpected)", name)
		}
	}
	if kind, given := drive["vendor_data"]; given && kind != 'n' && v < vendorDataSince {
		return wire.Invalid("Providing vendor_data in configdrive is only supported starting with API version %s", vendorDataSince)
	}
	for name, kind := range drive {
		if kind == 'n' || kind == '{' || name == "user_data" && (kind == '[' || kind == '"') {
			continue
		}
		return wire.Invalid("Invalid configdrive format: %s is not of the right type", name)
	}
	return nil
}

// keepDrive puts the config drive that a client has written into n's instance_info where
// drives are kept; before is what instance_info was, nil for a new node. Whether it is a
// drive shows when the node is deployed, as in Ironic.
func (s *Server) keepDrive(ctx context.Context, tx *store.Tx, n *store.Node, before map[string]any) error {
	err := tx.KeepDrive(ctx, n, before[store.DriveKey], s.Key)
	if errors.Is(err, store.ErrDriveMask) {
		return wire.Invalid("%v", store.ErrDriveMask)
	}
	return err
}
