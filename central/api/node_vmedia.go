package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ironyard/ironyard/central/api/wire"
	"github.com/ironyard/ironyard/protocol/ask"
	"github.com/ironyard/ironyard/protocol/hardware"
)

func (s *Server) nodeMedia() Resource {
	const path = "nodes/{node}/vmedia"
	return Resource{Since: 89, Routes: []Route{
		{Method: http.MethodGet, Path: path, Since: 93, Policy: "baremetal:node:vmedia:get", Handle: s.listMedia},
		{Method: http.MethodPost, Path: path, Policy: "baremetal:node:vmedia:attach", Handle: s.attachMedia, Success: http.StatusNoContent},
		{Method: http.MethodDelete, Path: path, Policy: "baremetal:node:vmedia:detach", Handle: s.detachMedia},
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
	m, err := readMedia(body)
	if err != nil {
		return Reply{}, err
	}
	n, err := s.idleNode(r)
	if err != nil {
		return Reply{}, err
	}
	if err := s.ask(r, n, ask.AttachMedia, m, nil); err != nil {
		return Reply{}, noHost(err)
	}
	return noContent()
}

func readMedia(body map[string]any) (m ask.Media, err error) {
	if err := only(body, "device_type", "image_url", "image_download_source"); err != nil {
		return m, err
	}
	kind, _ := body["device_type"].(string)
	if !slices.Contains(hardware.MediaTypes, kind) {
		return m, wire.Invalid("Invalid device_type %.40q: there are %s", kind, strings.Join(hardware.MediaTypes, ", "))
	}
	m.Image, _ = body["image_url"].(string)
	u, err := url.Parse(m.Image)
	if err != nil || m.Image == "" || u.Host == "" || !slices.Contains(imageSchemes, u.Scheme) {
		return m, wire.Invalid("Invalid image_url %.200q: it is a URL of scheme %s", m.Image, strings.Join(imageSchemes, ", "))
	}
	source, isText := body["image_download_source"].(string)
	switch {
	case body["image_download_source"] == nil:
	case !isText || !slices.Contains(downloadSources, source):
		return m, wire.Invalid("Invalid image_download_source %.40q: there are %s", source, strings.Join(downloadSources, ", "))
	case source == "swift":
		return m, wire.Invalid("The image_download_source swift is not supported: the BMC loads the image from its URL (http)")
	}
	m.Types = []string{kind}
	return m, nil
}

func (s *Server) detachMedia(r *Request) (Reply, error) {
	if err := r.Query.Allow("device_types"); err != nil {
		return Reply{}, err
	}
	types := r.Query.List("device_types")
	for _, kind := range types {
		if !slices.Contains(hardware.MediaTypes, kind) {
			return Reply{}, wire.Invalid("Invalid device type %.40q: there are %s", kind, strings.Join(hardware.MediaTypes, ", "))
		}
	}
	n, err := s.idleNode(r)
	if err != nil {
		return Reply{}, err
	}
	if err := s.ask(r, n, ask.DetachMedia, ask.Media{Types: types}, nil); err != nil {
		return Reply{}, noHost(err)
	}
	return noContent()
}
