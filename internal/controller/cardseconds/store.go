package cardseconds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardseconds"
)

// objectStore reads and writes the ConfigMaps by number: the running parts, then the slots of the archive.
type objectStore interface {
	read(ctx context.Context, i int) (object, error)
	// write changes the version of an object that was read, and returns the new version. It returns a
	// conflict if the object has another version. "" is an object that does not exist.
	write(ctx context.Context, i int, version string, c change) (newVersion string, err error)
}

// object is what is stored in a ConfigMap.
type object struct {
	// text is a running part, writer the identity of the replica that wrote it.
	text, writer string
	// entries are those of a slot, by key.
	entries map[string][]byte
	// version is the resource version, "" for a ConfigMap that does not exist.
	version string
}

// change is what to write.
type change struct {
	// text and writer replace those of a running part.
	text, writer *string
	// entries are added. One that is nil is removed.
	entries map[string][]byte
}

// configMaps stores each object in a ConfigMap. It reads the API server, because a cache would
// watch all ConfigMaps.
type configMaps struct {
	client    client.Client
	live      client.Reader
	namespace string
}

// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=cardquota-card-seconds-0;cardquota-card-seconds-1;cardquota-card-seconds-2;cardquota-card-seconds-3;cardquota-card-seconds-4;cardquota-card-seconds-5;cardquota-card-seconds-6;cardquota-card-seconds-7;cardquota-card-seconds-8;cardquota-card-seconds-9;cardquota-card-seconds-10;cardquota-card-seconds-11;cardquota-card-seconds-12;cardquota-card-seconds-13;cardquota-card-seconds-14;cardquota-card-seconds-15;cardquota-card-seconds-16;cardquota-card-seconds-17;cardquota-card-seconds-18;cardquota-card-seconds-19;cardquota-card-seconds-20;cardquota-card-seconds-21;cardquota-card-seconds-22;cardquota-card-seconds-23;cardquota-card-seconds-24;cardquota-card-seconds-25;cardquota-card-seconds-26;cardquota-card-seconds-27;cardquota-card-seconds-28;cardquota-card-seconds-29;cardquota-card-seconds-30;cardquota-card-seconds-31;cardquota-card-seconds-32;cardquota-card-seconds-33;cardquota-card-seconds-34;cardquota-card-seconds-35;cardquota-card-seconds-36;cardquota-card-seconds-37;cardquota-card-seconds-38;cardquota-card-seconds-39;cardquota-card-seconds-40;cardquota-card-seconds-41;cardquota-card-seconds-42;cardquota-card-seconds-43;cardquota-card-seconds-44;cardquota-card-seconds-45;cardquota-card-seconds-46;cardquota-card-seconds-47;cardquota-card-seconds-48;cardquota-card-seconds-49;cardquota-card-seconds-50;cardquota-card-seconds-51;cardquota-card-seconds-52;cardquota-card-seconds-53;cardquota-card-seconds-54;cardquota-card-seconds-55;cardquota-card-seconds-56;cardquota-card-seconds-57;cardquota-card-seconds-58;cardquota-card-seconds-59;cardquota-card-seconds-60;cardquota-card-seconds-61;cardquota-card-seconds-62;cardquota-card-seconds-63,verbs=get;create;patch

// read implements objectStore. A ConfigMap that does not exist is an empty object.
func (s *configMaps) read(ctx context.Context, i int) (object, error) {
	var stored corev1.ConfigMap
	err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: cardseconds.ConfigMapName(i)}, &stored)
	if apierrors.IsNotFound(err) {
		return object{}, nil
	}
	if err != nil {
		return object{}, fmt.Errorf("read ConfigMap %s: %w", cardseconds.ConfigMapName(i), err)
	}
	return object{
		text: stored.Data[cardseconds.TextKey], writer: stored.Data[cardseconds.WriterKey], entries: stored.BinaryData, version: stored.ResourceVersion,
	}, nil
}

// isEmpty reports whether nothing was ever written into a ConfigMap.
func (o *object) isEmpty() bool { return o.text == "" && o.writer == "" && len(o.entries) == 0 }

// write implements objectStore. It creates the ConfigMap if version is "", which is that of a missing one. c
// has the text of a running part, or entries of a slot.
func (s *configMaps) write(ctx context.Context, i int, version string, c change) (string, error) {
	name := cardseconds.ConfigMapName(i)
	// A patch needs an object. Creating it empty first lets every later write carry a version.
	if version == "" {
		created, err := s.create(ctx, i)
		if err != nil {
			return "", err
		}
		version = created
	}

	// With the version in the patch, the API server answers with a conflict if another replica has written
	// since.
	fields := map[string]any{"metadata": map[string]string{"resourceVersion": version}}
	if c.text != nil {
		fields["data"] = map[string]string{cardseconds.TextKey: *c.text, cardseconds.WriterKey: *c.writer}
	}

	if len(c.entries) > 0 {
		fields["binaryData"] = c.entries
	}

	patch, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}

	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := s.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", name, err)
	}

	return object.ResourceVersion, nil
}

// create makes an empty ConfigMap, and returns its version. It applies labels only, so it overwrites nothing
// that another replica writes at the same time.
func (s *configMaps) create(ctx context.Context, i int) (version string, err error) {
	name := cardseconds.ConfigMapName(i)
	object := corev1apply.ConfigMap(name, s.namespace).WithLabels(cardseconds.ConfigMapLabels())
	if err := s.client.Apply(ctx, object, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return "", fmt.Errorf("create ConfigMap %s: %w", name, err)
	}
	created, err := s.read(ctx, i) // Apply returns no version
	if err == nil && !created.isEmpty() {
		err = apierrors.NewConflict(corev1.Resource("configmaps"), name, errors.New("another replica wrote it at the same time"))
	}
	return created.version, err
}
