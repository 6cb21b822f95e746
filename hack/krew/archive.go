package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const programName = "kubectl-cardquota"

// packedAt is the time of all files in the archives, so that equal programs give equal archives. Zip
// knows no earlier year.
var packedAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// packedFile is one file of an archive.
type packedFile struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// packPlatform packs the program of a platform, with the license: as zip for windows, as tar.gz for
// others.
func packPlatform(o options, platform string, license []byte) (archive, error) {
	system, arch, ok := strings.Cut(platform, "_")
	if !ok {
		return archive{}, fmt.Errorf("folder %s of build is not named OS_ARCH", platform)
	}

	packed := archive{os: system, arch: arch, program: programName, name: fmt.Sprintf("%s_%s_%s_%s.tar.gz", programName, o.version, system, arch)}
	pack := packTar
	if system == "windows" {
		packed.program = programName + ".exe"
		packed.name = strings.TrimSuffix(packed.name, ".tar.gz") + ".zip"
		pack = packZip
	}

	program, err := os.ReadFile(filepath.Join(o.dist, "build", platform, packed.program))
	if err != nil {
		return archive{}, err
	}

	content, err := pack([]packedFile{{packed.program, 0o755, program}, {"LICENSE", 0o644, license}})
	if err != nil {
		return archive{}, fmt.Errorf("pack %s: %w", packed.name, err)
	}

	sum := sha256.Sum256(content)
	packed.sha256 = hex.EncodeToString(sum[:])
	return packed, os.WriteFile(filepath.Join(o.dist, packed.name), content, 0o644)
}

func packTar(files []packedFile) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}

	writer := tar.NewWriter(zipped)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: int64(file.mode), Size: int64(len(file.content)), ModTime: packedAt, Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, err
		}
	}

	if err := writer.Close(); err != nil {
		return nil, err
	}
	err = zipped.Close()

	return out.Bytes(), err
}

func packZip(files []packedFile) ([]byte, error) {
	var out bytes.Buffer
	writer := zip.NewWriter(&out)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: packedAt}
		header.SetMode(file.mode)
		entry, err := writer.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(file.content); err != nil {
			return nil, err
		}
	}

	err := writer.Close()
	return out.Bytes(), err
}
