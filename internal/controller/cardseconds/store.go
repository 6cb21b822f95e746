package cardseconds

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
)

// The keys of a ConfigMap: its part, and the replica that wrote it.
const (
	partKey   = "card-seconds"
	writerKey = "writer"
)

// partStore reads and writes the parts.
type partStore interface {
	read(ctx context.Context, i int) (part, error)
	// write replaces the version of a part that was read, and returns the new version. It returns a
	// conflict if the part has another version.
	write(ctx context.Context, i int, p part) (version string, err error)
}

// configMaps stores each part in a ConfigMap. It reads the API server, because a cache would
// watch all ConfigMaps.
type configMaps struct {
	client    client.Client
	live      client.Reader
	namespace string
}

// +kubebuilder:rbac:groups="",namespace=volcano-system,resources=configmaps,resourceNames=cardquota-card-seconds-0;cardquota-card-seconds-1;cardquota-card-seconds-2;cardquota-card-seconds-3;cardquota-card-seconds-4;cardquota-card-seconds-5;cardquota-card-seconds-6;cardquota-card-seconds-7,verbs=get;create;patch

func configMapName(part int) string { return fmt.Sprintf("cardquota-card-seconds-%d", part) }

func (s *configMaps) read(ctx context.Context, i int) (part, error) {
	var stored corev1.ConfigMap
	err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: configMapName(i)}, &stored)
	if apierrors.IsNotFound(err) {
		return part{}, nil
	}
	if err != nil {
		return part{}, fmt.Errorf("read ConfigMap %s: %w", configMapName(i), err)
	}
	return part{text: stored.Data[partKey], version: stored.ResourceVersion, writer: stored.Data[writerKey]}, nil
}

func (s *configMaps) write(ctx context.Context, i int, p part) (version string, err error) {
	data := map[string]string{partKey: p.text, writerKey: p.writer}
	if p.version == "" {
		object := corev1apply.ConfigMap(configMapName(i), s.namespace).WithData(data).
			WithLabels(map[string]string{"app.kubernetes.io/name": "cardquota", "app.kubernetes.io/managed-by": v1alpha1.FieldManager})
		if err := s.client.Apply(ctx, object, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
			return "", fmt.Errorf("create ConfigMap %s: %w", configMapName(i), err)
		}
		created, err := s.read(ctx, i) // Apply returns no version
		if err == nil && created.writer != p.writer {
			err = apierrors.NewConflict(corev1.Resource("configmaps"), configMapName(i), fmt.Errorf("%s wrote it at the same time", created.writer))
		}
		return created.version, err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": p.version}, "data": data})
	if err != nil {
		return "", err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: configMapName(i)}}
	if err := s.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return "", fmt.Errorf("write ConfigMap %s: %w", configMapName(i), err)
	}
	return object.ResourceVersion, nil
}
