package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// imageContent is an image in an OCI archive.
type imageContent struct {
	name   string // as the archive names it
	digest string // of the manifest
	config imageConfig
	files  map[string]file // of all layers
}

type imageConfig struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       struct {
		User       string            `json:"User"`
		Entrypoint []string          `json:"Entrypoint"`
		Cmd        []string          `json:"Cmd"`
		Labels     map[string]string `json:"Labels"`
	} `json:"config"`
}

type file struct {
	header *tar.Header
	data   []byte
}

type descriptor struct {
	Digest      string            `json:"digest"`
	MediaType   string            `json:"mediaType"`
	Annotations map[string]string `json:"annotations"`
}

// openArchive opens an OCI archive with one image.
func openArchive(path string) (imageContent, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return imageContent{}, err
	}

	parts, err := readTar(bytes.NewReader(text))
	if err != nil {
		return imageContent{}, fmt.Errorf("%s: %w", path, err)
	}

	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(parts["index.json"].data, &index); err != nil || len(index.Manifests) != 1 {
		return imageContent{}, fmt.Errorf("%s: %d images: %w", path, len(index.Manifests), err)
	}

	blob := func(digest string) []byte { return parts["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")].data }
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}

	p := imageContent{
		name:   index.Manifests[0].Annotations["org.opencontainers.image.ref.name"],
		digest: index.Manifests[0].Digest,
		files:  map[string]file{},
	}
	if err := json.Unmarshal(blob(p.digest), &manifest); err != nil {
		return imageContent{}, fmt.Errorf("%s: manifest: %w", path, err)
	}
	if err := json.Unmarshal(blob(manifest.Config.Digest), &p.config); err != nil {
		return imageContent{}, fmt.Errorf("%s: config: %w", path, err)
	}

	for _, layer := range manifest.Layers {
		if err := p.addLayer(blob(layer.Digest), layer.MediaType); err != nil {
			return imageContent{}, fmt.Errorf("%s: layer: %w", path, err)
		}
	}

	return p, nil
}

// addLayer adds the files of a layer.
func (p *imageContent) addLayer(layer []byte, mediaType string) error {
	var content io.Reader = bytes.NewReader(layer)
	if strings.HasSuffix(mediaType, "+gzip") {
		var err error
		content, err = gzip.NewReader(content)
		if err != nil {
			return err
		}
	}

	files, err := readTar(content)
	for name, f := range files {
		p.files[name] = f
	}

	return err
}

// readTar returns the files, links, devices and folders of an archive without the root.
func readTar(content io.Reader) (map[string]file, error) {
	files := map[string]file{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}

		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}

		if name := strings.Trim(strings.TrimPrefix(header.Name, "."), "/"); name != "" {
			files[name] = file{header, data}
		}
	}
}
