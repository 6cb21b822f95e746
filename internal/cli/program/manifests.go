package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
)

// ManifestFiles are the flags that name files with objects, as in kubectl.
type ManifestFiles struct {
	// Names are files, folders, URLs, or - for the standard input.
	Names     []string
	recursive bool
}

// AddFlags adds the flags to a command.
func (f *ManifestFiles) AddFlags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringSliceVarP(&f.Names, "filename", "f", nil, usage)
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "Read also the folders inside a folder of --filename.")
}

// ReadObjects returns all objects in the files, of any kind.
func (f *ManifestFiles) ReadObjects(ctx context.Context, p *Program) ([]*unstructured.Unstructured, error) {
	manifests, err := f.readManifests(ctx, p)
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		objects = append(objects, m.Object.(*unstructured.Unstructured))
	}
	return objects, err
}

// readManifests returns all objects in the files as unstructured ones, each with the file that it is from. It
// asks no API server.
func (f *ManifestFiles) readManifests(ctx context.Context, p *Program) ([]*resource.Info, error) {
	if len(f.Names) == 0 {
		return nil, nil
	}

	// With ContinueOnError the error names the mistakes of all files, and not only the first one.
	b := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	for _, name := range f.Names {
		switch {
		case name == "-":
			b = b.Stream(p.Streams.In, "standard input")
		case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
			// The builder would read a URL without a time limit.
			text, err := p.readURL(ctx, name)
			if err != nil {
				return nil, err
			}
			b = b.Stream(bytes.NewReader(text), name)
		default:
			b = b.FilenameParam(false, &resource.FilenameOptions{Filenames: []string{name}, Recursive: f.recursive})
		}
	}

	manifests, err := b.Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("read --filename: %w", err)
	}

	return manifests, nil
}

// maxManifest bounds what is read of a URL, in bytes.
const maxManifest = 64 << 20

// readURL returns what a URL has. The errors name it, because those of requests would be taken for errors
// of the API server.
func (p *Program) readURL(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.RequestTimeout)
	defer cancel()

	text, err := readBody(ctx, address)
	switch {
	case err == nil:
		return text, nil
	case errors.Is(err, context.Canceled): // Ctrl-C
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("read --filename: %s does not answer in time", address)
	default:
		return nil, fmt.Errorf("read --filename: %s: %s", address, reader.RootCause(err))
	}
}

// readBody returns the body of a URL. One of more than maxManifest bytes is an error.
func readBody(ctx context.Context, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxManifest+1)) // one byte more shows that it is too long
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has more than %d MiB", maxManifest>>20)
	}

	return text, err
}

// ReadCardQuotas returns the CardQuotas in the files, and the file of each by name. Objects of other
// kinds are left out. Files without a CardQuota are an error, no files are none.
func (f *ManifestFiles) ReadCardQuotas(ctx context.Context, p *Program) ([]*v1alpha1.CardQuota, map[string]string, error) {
	manifests, err := f.readManifests(ctx, p)
	if err != nil || len(f.Names) == 0 {
		return nil, nil, err
	}

	var quotas []*v1alpha1.CardQuota
	files := map[string]string{}
	for _, m := range manifests {
		object := m.Object.(*unstructured.Unstructured)
		if object.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("CardQuota") {
			continue
		}

		// Without a misspelt field the answer would be about another CardQuota than the written
		// one.
		quota := &v1alpha1.CardQuota{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, quota, true); err != nil {
			return nil, nil, fmt.Errorf("read CardQuota %s of %s: %w", object.GetName(), m.Source, err)
		}

		quotas = append(quotas, quota)
		files[quota.Name] = m.Source
	}

	if len(quotas) == 0 {
		return nil, nil, errors.New("read --filename: the files have no CardQuota")
	}

	return quotas, files, nil
}
