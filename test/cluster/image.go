package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildImage builds a Go package of this module as a static program and makes an image of it;
// see BuildImageFrom.
func (c *Cluster) BuildImage(ctx context.Context, name, goPackage string) (string, error) {
	program := filepath.Join(c.dir.imagesDir(), "programs", filepath.Base(goPackage))
	if err := buildProgram(ctx, goPackage, program); err != nil {
		return "", fmt.Errorf("image %s: %w", name, err)
	}
	return c.BuildImageFrom(ctx, name, program)
}

// BuildImageFrom writes an image with only a static program, as an OCI archive:
// Dir/images/<program>.tar. The image has the given name ("localhost/responder:test") and runs
// the program as user 65532. buildah makes it, which needs root. It returns the archive's path,
// for ImportImage.
func (c *Cluster) BuildImageFrom(ctx context.Context, name, path string) (archive string, err error) {
	program := filepath.Base(path)
	work := filepath.Join(c.dir.imagesDir(), program+".build")
	folder := filepath.Join(work, "context")
	archive = filepath.Join(c.dir.imagesDir(), program+".tar")

	containerfile := fmt.Sprintf("FROM scratch\nCOPY %[1]s /%[1]s\nUSER 65532:65532\nENTRYPOINT [\"/%[1]s\"]\n", program)
	for _, step := range []func() error{
		func() error { return os.MkdirAll(folder, 0o755) },
		func() error { return runCommand(exec.CommandContext(ctx, "cp", "--preserve=mode", path, folder)) },
		func() error {
			return os.WriteFile(filepath.Join(folder, "Containerfile"), []byte(containerfile), 0o644)
		},
		func() error { return os.RemoveAll(archive) },
		func() error {
			return runCommand(exec.CommandContext(ctx, "buildah", "--storage-driver=vfs", // a storage of its own: nothing stays in the machine's
				"--root="+filepath.Join(work, "root"), "--runroot="+filepath.Join(work, "runroot"),
				"bud", "--isolation=chroot", "--quiet", "--tag=oci-archive:"+archive+":"+name, folder))
		},
		func() error { return os.RemoveAll(work) },
	} {
		if err := step(); err != nil {
			return "", fmt.Errorf("image %s: %w", name, err)
		}
	}

	return archive, nil
}

// buildProgram builds a Go package of this module as a static program.
func buildProgram(ctx context.Context, goPackage, output string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", output, goPackage)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return runCommand(build)
}

// runCommand runs a short command. Its output is part of the error.
func runCommand(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), errors.Join(err, errors.New(strings.TrimSpace(string(out)))))
}
