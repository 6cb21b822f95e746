package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"cardquota.dev/operator/internal/testing/check"
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
func openArchive(t *testing.T, path string) imageContent {
	parts := readTar(t, bytes.NewReader(check.Value(os.ReadFile(path))(t)))
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	check.NoError(t, json.Unmarshal(parts["index.json"].data, &index))
	check.Must(t, len(index.Manifests) == 1, "%s: %d images", path, len(index.Manifests))

	blob := func(digest string) []byte { return parts["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")].data }
	var manifest struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}

	image := imageContent{
		name:   index.Manifests[0].Annotations["org.opencontainers.image.ref.name"],
		digest: index.Manifests[0].Digest,
		files:  map[string]file{},
	}
	check.NoError(t, json.Unmarshal(blob(image.digest), &manifest))
	check.NoError(t, json.Unmarshal(blob(manifest.Config.Digest), &image.config))
	for _, layer := range manifest.Layers {
		var content io.Reader = bytes.NewReader(blob(layer.Digest))
		if strings.HasSuffix(layer.MediaType, "+gzip") {
			content = check.Value(gzip.NewReader(content))(t)
		}
		maps.Copy(image.files, readTar(t, content))
	}

	return image
}

// readTar returns the files, links, devices and folders of an archive without the root.
func readTar(t *testing.T, content io.Reader) map[string]file {
	files := map[string]file{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}

		check.NoError(t, err)
		data := check.Value(io.ReadAll(archive))(t)
		if name := strings.Trim(strings.TrimPrefix(header.Name, "."), "/"); name != "" {
			files[name] = file{header, data}
		}
	}
}
