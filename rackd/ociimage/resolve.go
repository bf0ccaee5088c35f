package ociimage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
)

const (
	// maxManifest bounds manifests and indexes, in bytes: as the registries' own specification advises.
	maxManifest = 4 << 20

	indexType        = "application/vnd.oci.image.index.v1+json"
	manifestType     = "application/vnd.oci.image.manifest.v1+json"
	dockerListType   = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerType       = "application/vnd.docker.distribution.manifest.v2+json"
	containerType    = "application/vnd.oci.image.config.v1+json"
	dockerConfigType = "application/vnd.docker.container.image.v1+json"

	// titleNote names a file on the layer that holds it; diskNote says how a disk image is stored.
	titleNote = "org.opencontainers.image.title"
	diskNote  = "disktype"
)

// preference orders the disk types of an index, as Ironic does where it serves images itself: what is small on its way
// into the cache goes first. Other types are no images for disks here.
var preference = []string{"qcow2", "qemu", "raw", "applehv"}

// entry is a member of an index, or of a manifest's layers.
type entry struct {
	MediaType   string            `json:"mediaType"`
	Digest      digest.Digest     `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// document is an index or a manifest; which one, its media type says.
type document struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Manifests    []entry           `json:"manifests"`
	Config       entry             `json:"config"`
	Layers       []entry           `json:"layers"`
	Annotations  map[string]string `json:"annotations"`
}

// Resolve finds the file that an address means. Of an index it takes the member for the architecture (empty: any) whose
// disk type goes first.
// Errors wrap ErrReference, ErrRefused or ErrInTheClear where trying again does not help.
func (c *Client) Resolve(ctx context.Context, address, arch string, access Access) (Blob, error) {
	ref, err := Parse(address)
	if err != nil {
		return Blob{}, err
	}
	d, err := c.read(ctx, ref, access)
	if err != nil {
		return Blob{}, err
	}
	disk := ""
	if d.MediaType == indexType || d.MediaType == dockerListType || len(d.Manifests) > 0 {
		member, err := choose(ref, d.Manifests, arch)
		if err != nil {
			return Blob{}, err
		}
		disk, ref.Reference = member.Annotations[diskNote], member.Digest.String()
		if d, err = c.read(ctx, ref, access); err != nil {
			return Blob{}, err
		}
	}
	layer, err := only(ref, d, disk)
	if err != nil {
		return Blob{}, err
	}
	return Blob{URL: Scheme + "://" + ref.Registry + "/" + ref.Repository + "@" + layer.Digest.String(),
		Algorithm: layer.Digest.Algorithm().String(), Checksum: layer.Digest.Encoded(), Size: layer.Size}, nil
}

// read gets an index or a manifest, compared with its digest.
func (c *Client) read(ctx context.Context, ref registry.Reference, access Access) (d document, err error) {
	repo, err := c.repository(ref, access)
	if err != nil {
		return d, err
	}
	repo.ManifestMediaTypes = []string{indexType, manifestType, dockerListType, dockerType}
	desc, body, err := repo.Manifests().FetchReference(ctx, ref.Reference)
	if err != nil {
		return d, said(ref, err)
	}
	defer body.Close()
	if desc.Size > maxManifest {
		return d, fmt.Errorf("%w: the manifest of %s:%s has %d bytes; at most %d are read", ErrReference, ref.Repository, ref.Reference, desc.Size, maxManifest)
	}
	text, err := content.ReadAll(body, desc)
	if errors.Is(err, content.ErrMismatchedDigest) || errors.Is(err, content.ErrTrailingData) {
		return d, otherContent(ref)
	}
	if err != nil {
		return d, said(ref, err)
	}
	if json.Unmarshal(text, &d) != nil {
		return d, fmt.Errorf("%w: the manifest of %s:%s is not JSON of that form", ErrReference, ref.Repository, ref.Reference)
	}
	return d, nil
}

// choose takes a member of an index.
func choose(ref registry.Reference, all []entry, arch string) (best entry, err error) {
	bestRank, types := -1, []string{}
	for _, m := range all {
		if !fits(m.Platform.Architecture, arch) || m.Digest.Validate() != nil {
			continue
		}
		kind := m.Annotations[diskNote]
		rank := len(preference) // without a type: after all others
		if kind != "" {
			types = append(types, kind)
			if rank = slices.Index(preference, kind); rank < 0 {
				continue
			}
		}
		if bestRank < 0 || rank < bestRank {
			best, bestRank = m, rank
		}
	}
	if bestRank < 0 {
		return best, fmt.Errorf("%w: none of the %d members of %s:%s is an image for disks of architecture %q (disk types there: %q)",
			ErrReference, len(all), ref.Repository, ref.Reference, arch, types)
	}
	return best, nil
}

// sameArch are the two names of an architecture, Linux's and Go's.
var sameArch = map[string]string{"x86_64": "amd64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "aarch64"}

func fits(of, arch string) bool { return of == "" || arch == "" || of == arch || of == sameArch[arch] }

// only returns the file of a manifest, which must be its only one. disk is the type of it that an index told.
func only(ref registry.Reference, d document, disk string) (entry, error) {
	at := ref.Repository + ":" + ref.Reference
	if len(d.Manifests) > 0 {
		return entry{}, fmt.Errorf("%w: %s is an index in an index", ErrReference, at)
	}
	if disk == "" {
		disk = d.Annotations[diskNote]
	}
	named := len(d.Layers) == 1 && d.Layers[0].Annotations[titleNote] != ""
	container := d.Config.MediaType == containerType || d.Config.MediaType == dockerConfigType
	if container && d.ArtifactType == "" && disk == "" && !named {
		return entry{}, fmt.Errorf("%w: %s is a container's image, not that of a disk; the deploy interface bootc is for those (with autodetect: image_disk_format bootc)", ErrReference, at)
	}
	if len(d.Layers) != 1 {
		return entry{}, fmt.Errorf("%w: Incorrect number of layers. Expected 1 layer, found %d layers. (%s)", ErrReference, len(d.Layers), at)
	}
	if err := d.Layers[0].Digest.Validate(); err != nil {
		return entry{}, fmt.Errorf("%w: the file of %s has no usable digest: %w", ErrReference, at, err)
	}
	if d.Layers[0].Size < 0 {
		return entry{}, fmt.Errorf("%w: the manifest of %s says that its file has %d bytes", ErrReference, at, d.Layers[0].Size)
	}
	return d.Layers[0], nil
}
