package configdrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// object is the form that the API's clients like best. The parts stay as they came:
// a number must not change its digits on the way.
type object struct {
	MetaData    map[string]json.RawMessage `json:"meta_data"`
	NetworkData json.RawMessage            `json:"network_data"`
	UserData    json.RawMessage            `json:"user_data"`
	VendorData  json.RawMessage            `json:"vendor_data"`
}

// fromObject builds a drive from an object.
func fromObject(input string, d Defaults) (string, error) {
	if len(input) > maxText {
		return "", tooLarge()
	}
	var o object
	dec := json.NewDecoder(strings.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%w: there is more behind the object", ErrInvalid)
	}
	files, err := o.files(d)
	if err != nil {
		return "", err
	}
	image, err := writeISO(Label, []string{"openstack", "latest"}, files)
	if err != nil {
		return "", err
	}
	return pack(image)
}

// files are the object's files in the order of their names.
func (o *object) files(d Defaults) ([]isoFile, error) {
	if o.MetaData == nil {
		o.MetaData = map[string]json.RawMessage{}
	}
	for key, value := range map[string]string{"uuid": d.UUID, "name": d.Name, "hostname": d.Name} {
		if !given(o.MetaData[key]) && value != "" {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("%w: meta_data %s: %w", ErrInvalid, key, err)
			}
			o.MetaData[key] = text
		}
	}
	meta, err := json.Marshal(o.MetaData) // sorts the keys
	if err != nil {
		return nil, fmt.Errorf("%w: meta_data: %w", ErrInvalid, err)
	}
	files := []isoFile{{"meta_data.json", meta}}
	if given(o.NetworkData) {
		files = append(files, isoFile{"network_data.json", o.NetworkData})
	}
	if given(o.UserData) {
		body := []byte(o.UserData)
		var text string
		if json.Unmarshal(body, &text) == nil {
			body = []byte(text) // a text is the file, an object or list is JSON in it
		}
		files = append(files, isoFile{"user_data", body})
	}
	if given(o.VendorData) {
		// The name under which an operator's data does not replace the image's own.
		files = append(files, isoFile{"vendor_data2.json", o.VendorData})
	}
	return files, nil
}

// given reports whether a part is there and not null.
func given(part json.RawMessage) bool { return len(part) > 0 && !bytes.Equal(part, []byte("null")) }
