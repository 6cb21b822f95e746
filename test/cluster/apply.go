package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// fieldManager is the field manager of Apply.
const fieldManager = "test-cluster"

// Apply applies every document of a YAML text by server-side apply, as administrator and with
// force, in order. Objects without a namespace go to "default". Apply waits for a kind whose
// CustomResourceDefinition was just applied.
func (c *Cluster) Apply(ctx context.Context, manifests []byte) error {
	objects, err := Decode(manifests)
	if err != nil {
		return err
	}
	return c.applyAll(ctx, objects)
}

func (c *Cluster) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := c.applyObject(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// ApplyFile is Apply for the content of a file.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	manifests, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := c.Apply(ctx, manifests); err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	return nil
}

func (c *Cluster) applyObject(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := c.resourceFor(ctx, object)
	if err != nil {
		return err
	}
	options := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := resource.Apply(ctx, object.GetName(), object, options); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// resourceFor returns the client of an object's kind. Discovery may not show a new kind yet.
func (c *Cluster) resourceFor(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	var mapping *meta.RESTMapping
	err := waitUntilReady(ctx, kind.String(), nil, func(context.Context) (err error) {
		mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			c.mapper.Reset()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource), nil
	}

	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}

	return c.dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

// Decode decodes a multi-document YAML text.
func Decode(text []byte) ([]*unstructured.Unstructured, error) { return decodeObjects(text, nil) }

// decodeObjects decodes a multi-document YAML text. keep selects documents before they are
// parsed, because parsing megabytes of CRDs is slow.
func decodeObjects(text []byte, keep func(document []byte) bool) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var objects []*unstructured.Unstructured
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if keep != nil && !keep(document) {
			continue
		}

		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
		if len(content) == 0 {
			continue // only comments
		}

		object := &unstructured.Unstructured{Object: content}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document %d: no kind or apiVersion", number)
		}
		objects = append(objects, object)
	}
}
