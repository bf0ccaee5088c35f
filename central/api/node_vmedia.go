package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/microversion"
	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/central/dispatch"
	"github.com/ironyard/ironyard/central/store"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
	"github.com/ironyard/ironyard/protocol/work"
)

// mediaSince is the version that brought virtual media.
const mediaSince microversion.Version = 89

func (s *Server) nodeMedia() Resource {
	const path = "nodes/{node}/vmedia"
	return Resource{Since: mediaSince, Routes: []Route{
		{Method: http.MethodGet, Path: path, Summary: "List the virtual media of a machine", Since: 93, Policy: "baremetal:node:vmedia:get", Handle: s.listMedia, Shows: mediaAnswer},
		{Method: http.MethodPost, Path: path, Summary: "Put an image into a virtual drive of a machine", Policy: "baremetal:node:vmedia:attach", Handle: s.attachMedia, Takes: attachMediaBody, Success: http.StatusNoContent},
		{Method: http.MethodDelete, Path: path, Summary: "Take images out of the virtual drives of a machine", Policy: "baremetal:node:vmedia:detach", Handle: s.detachMedia},
		{Method: http.MethodDelete, Path: path + "/{device_types}", Summary: "Take the image out of a virtual drive of a machine", Policy: "baremetal:node:vmedia:detach", Handle: s.detachMedia},
	}}
}

var (
	// imageSchemes are those that BMCs load images by.
	imageSchemes    = []string{"http", "https", "nfs", "cifs"}
	downloadSources = []string{"http", "local", "swift"}
)

func (s *Server) listMedia(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	var list []hardware.Media
	if err := s.ask(r, n, ask.VirtualMedia, nil, &list); err != nil {
		return Reply{}, noHost(err)
	}
	if list == nil {
		list = []hardware.Media{}
	}
	for i := range list { // not every caller who may look may load the image
		image, _ := withoutCredentials(list[i].Image).(string)
		list[i].Image = hardware.WithoutCodes(image)
	}
	return ok(wire.AppendValue(nil, list))
}

func (s *Server) attachMedia(r *Request) (Reply, error) {
	if err := r.Query.Allow(); err != nil {
		return Reply{}, err
	}
	body, err := r.Object()
	if err != nil {
		return Reply{}, err
	}
	kind, image, err := readMedia(body)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	id := dispatch.NewWorkID()
	change, err := s.dispatch.AttachMedia(n, id, kind, image)
	if err != nil {
		return Reply{}, err
	}
	what := "attaching virtual media " + kind
	if body["image_download_source"] == "local" {
		what += " (image_download_source local has no effect: the BMC loads the image from its URL itself)"
	}
	return s.changeMedia(r, n, id, change, what)
}

// changeMedia hands the change to the node's rack. The client does not wait for its end:
// what goes wrong is the node's last_error.
func (s *Server) changeMedia(r *Request, n *store.Node, id string, change work.Change, what string) (Reply, error) {
	if err := s.dispatch.Adjust(r.Context(), dispatch.Adjustment{Node: n, Change: change, Work: id, What: what, Caller: caller(r)}); err != nil {
		return Reply{}, noHost(storeError(err))
	}
	return noContent()
}

// readMedia reads which drive is to get which image.
func readMedia(body map[string]any) (kind, image string, err error) {
	if err := onlyOf("vmedia", body, "device_type", "image_url", "image_download_source"); err != nil {
		return "", "", err
	}
	for _, name := range []string{"device_type", "image_url"} {
		if _, given := body[name]; !given {
			return "", "", wire.Invalid("Schema error for vmedia: '%s' is a required property", name)
		}
	}
	kind, _ = body["device_type"].(string)
	if !slices.Contains(hardware.MediaTypes, kind) {
		return "", "", wire.Invalid("Schema error for vmedia: %s is not one of ['%s']", wire.Repr(body["device_type"]), strings.Join(hardware.MediaTypes, "', '"))
	}
	image, _ = body["image_url"].(string)
	u, err := url.Parse(image)
	if err != nil || image == "" || u.Host == "" || !slices.Contains(imageSchemes, u.Scheme) {
		return "", "", wire.Invalid("Unsupported or missing URL scheme: %.200s. It is a URL of scheme %s", wire.Repr(withoutCredentials(body["image_url"])), strings.Join(imageSchemes, ", "))
	}
	asked, given := body["image_download_source"]
	source, isText := asked.(string)
	switch {
	case !given:
	case !isText || !slices.Contains(downloadSources, source):
		return "", "", wire.Invalid("Schema error for vmedia: %s is not one of ['%s']", wire.Repr(asked), strings.Join(downloadSources, "', '"))
	case source == "swift":
		return "", "", wire.Invalid("The image_download_source swift is not supported: the BMC loads the image from its URL (http)")
	}
	return kind, image, nil
}

func (s *Server) detachMedia(r *Request) (Reply, error) {
	types, err := detachedTypes(r)
	if err != nil {
		return Reply{}, err
	}
	for _, kind := range types {
		if !slices.Contains(hardware.MediaTypes, kind) {
			return Reply{}, wire.Invalid("Invalid device type(s) %.40s (valid are %s)", kind, strings.Join(hardware.MediaTypes, ", "))
		}
	}
	n, err := s.node(r, r.Param(0))
	if err != nil {
		return Reply{}, err
	}
	return s.changeMedia(r, n, "", work.Change{Media: &work.Media{Types: types}}, "detaching virtual media")
}

// detachedTypes reads which media are to be taken out: in the path, in the query, or in a body,
// where openstacksdk puts them. None: all.
func detachedTypes(r *Request) ([]string, error) {
	args, err := r.Arguments(wire.MaxBody, "", "device_types")
	if err != nil {
		return nil, err
	}
	asked, given := args["device_types"]
	if len(r.params) > 1 {
		if given && asked != "" {
			return nil, wire.FrameworkError(http.StatusNotFound, "")
		}
		asked = r.Param(1)
	}
	switch asked := asked.(type) {
	case nil:
		return nil, nil
	case string:
		return wire.Query{"device_types": asked}.List("device_types"), nil
	case []any:
		types := make([]string, len(asked))
		for i, kind := range asked {
			text, isText := kind.(string)
			if !isText {
				return nil, wire.Invalid("Expected string for device_types: %s", wire.Repr(kind))
			}
			types[i] = text
		}
		return types, nil
	}
	return nil, wire.Invalid("Expected string for device_types: %s", wire.Repr(asked))
}
