package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"cardquota.dev/operator/api/v1alpha1"
)

// manifestFiles are the flags that name files with objects, as in kubectl.
type manifestFiles struct {
	names     []string
	recursive bool
}

func (f *manifestFiles) addFlags(cmd *cobra.Command, usage string) {
	cmd.Flags().StringSliceVarP(&f.names, "filename", "f", nil, usage)
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "Read also the folders inside a folder of --filename.")
}

// manifest is an object and the file that it is from.
type manifest struct {
	*unstructured.Unstructured
	file string
}

// readObjects returns all objects in the files.
func (f *manifestFiles) readObjects(stdin io.Reader) ([]*unstructured.Unstructured, error) {
	manifests, err := f.readManifests(stdin)
	var objects []*unstructured.Unstructured
	for _, m := range manifests {
		objects = append(objects, m.Unstructured)
	}
	return objects, err
}

// readManifests returns all objects in the files with their file.
func (f *manifestFiles) readManifests(stdin io.Reader) ([]manifest, error) {
	if len(f.names) == 0 {
		return nil, nil
	}
	b := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	var names []string
	for _, name := range f.names {
		if name == "-" {
			b = b.Stream(stdin, "standard input")
		} else {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		b = b.FilenameParam(false, &resource.FilenameOptions{Filenames: names, Recursive: f.recursive})
	}
	infos, err := b.Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("read --filename: %w", err)
	}
	var manifests []manifest
	for _, info := range infos {
		if object, ok := info.Object.(*unstructured.Unstructured); ok {
			manifests = append(manifests, manifest{object, info.Source})
		}
	}
	return manifests, nil
}

// readCardQuotas returns the CardQuotas in the files, and the file of each by name. Objects of other
// kinds are left out.
func (f *manifestFiles) readCardQuotas(stdin io.Reader) ([]*v1alpha1.CardQuota, map[string]string, error) {
	manifests, err := f.readManifests(stdin)
	if err != nil || len(f.names) == 0 {
		return nil, nil, err
	}
	var quotas []*v1alpha1.CardQuota
	files := map[string]string{}
	for _, m := range manifests {
		if m.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("CardQuota") {
			continue
		}
		quota := &v1alpha1.CardQuota{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m.Object, quota, true); err != nil {
			return nil, nil, fmt.Errorf("read CardQuota %s of %s: %w", m.GetName(), m.file, err)
		}
		quotas, files[quota.Name] = append(quotas, quota), m.file
	}
	if len(quotas) == 0 {
		return nil, nil, errors.New("read --filename: the files have no CardQuota")
	}
	return quotas, files, nil
}
