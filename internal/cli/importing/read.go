package importing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/workload"
)

// readImportInput reads what the sources need, and counts what pods use. What the user may not read, and kinds that the
// cluster does not have, are left out, except those of a source that he names. Without the right to list CardQuotas
// there is no import. A user who may not list all pods or ResourceQuotas gets those of a namespace.
func readImportInput(ctx context.Context, r *reader.Reader, namespace string, input *Input) error {
	if err := readQuotas(ctx, r, input); err != nil {
		return err
	}

	use := reader.ReadUse(ctx, r, namespace)
	input.IsTree = input.IsTree || use.IsTree
	if use.IsComplete && use.OnlyNamespace == "" {
		input.Usage = queueusage.Count(queueusage.Input{Pods: use.Pods, PodGroups: use.PodGroups, Inventory: use.Tracker().Inventory()})
	}

	input.Fleet = use.Fleet
	input.HidesNodes = !use.HasNodes
	if use.HasPods {
		input.ByNamespace = countOutsideQueues(&use, input.Queues)
	}

	if input.wantsSource(FromResourceQuotas) {
		reader.ListVisible(ctx, r, &corev1.ResourceQuotaList{}, &input.ResourceQuotas, namespace)
	}
	if input.wantsSource(FromKueue) {
		if err := readKueue(ctx, r, input); err != nil {
			return err
		}
	}

	readNamespaces(ctx, r, input)
	return r.Err()
}

// readQuotas reads Queues and CardQuotas.
func readQuotas(ctx context.Context, r *reader.Reader, input *Input) error {
	reader.ListInto(ctx, r, &v1beta1.QueueList{}, &input.Queues)
	if !input.requiresSource(FromQueues) {
		r.IgnoreMissingKind()
	} else if len(r.Gaps) > 0 {
		return errors.New(strings.Join(r.Gaps, ", and "))
	}
	if r.Err() != nil {
		return r.Err()
	}

	mayRead := reader.ListInto(ctx, r, &v1alpha1.CardQuotaList{}, &input.Quotas)
	isMissing := r.IgnoreMissingKind() // a user may import before Cardquota is installed
	if r.Err() == nil && !mayRead && !isMissing {
		return errors.New(strings.Join(r.Gaps, ", and ")) // a Queue could get a second CardQuota
	}
	return r.Err()
}

// countOutsideQueues counts by namespace the pods that are in none of the Queues.
func countOutsideQueues(use *reader.Use, queues []*v1beta1.Queue) map[string]queueusage.Usage {
	exists := map[string]bool{}
	for _, queue := range queues {
		exists[queue.Name] = true
	}

	// No namespace has the name "".
	groups := use.By(func(namespace, queue string) string {
		if exists[queue] {
			return ""
		}
		return namespace
	})
	delete(groups, "")
	return groups
}

// kueueKind returns a kind of Kueue.
func kueueKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: "kueue.x-k8s.io", Kind: kind}
}

// readKueue reads the objects of Kueue, in the version that the API server prefers.
func readKueue(ctx context.Context, r *reader.Reader, input *Input) error {
	isServed, _ := reader.ListServed(ctx, r, kueueKind("ClusterQueue"), &input.Kueue.ClusterQueues)
	if !isServed && input.requiresSource(FromKueue) && r.Err() == nil {
		return fmt.Errorf("the cluster has no kind ClusterQueue of %s: Kueue is not installed", kueueKind("").Group)
	}
	if len(input.Kueue.ClusterQueues) == 0 {
		return r.Err()
	}

	reader.ListServed(ctx, r, kueueKind("ResourceFlavor"), &input.Kueue.Flavors)
	_, mayRead := reader.ListServed(ctx, r, kueueKind("LocalQueue"), &input.Kueue.LocalQueues)
	input.Kueue.HidesLocalQueues = !mayRead
	return r.Err()
}

// readNamespaces sets the labels of the namespaces that matter. They are read only if a CardQuota or ClusterQueue may
// select namespaces by them; each has the label of its name.
func readNamespaces(ctx context.Context, r *reader.Reader, input *Input) {
	input.NamespaceLabels = map[string]map[string]string{}
	addNamespace := func(name string) {
		input.NamespaceLabels[name] = map[string]string{corev1.LabelMetadataName: name}
	}
	for name := range input.ByNamespace {
		addNamespace(name)
	}

	for _, object := range input.ResourceQuotas {
		addNamespace(object.Namespace)
	}

	for _, object := range input.Kueue.LocalQueues {
		addNamespace(object.GetNamespace())
	}

	hasSelector := len(input.Kueue.ClusterQueues) > 0 || slices.ContainsFunc(input.Quotas, func(quota *v1alpha1.CardQuota) bool {
		return workload.ExplicitSelector(quota.Spec.NamespaceSelector) != nil
	})
	if !hasSelector {
		return
	}

	var namespaces []*corev1.Namespace
	reader.ListInto(ctx, r, &corev1.NamespaceList{}, &namespaces)
	for _, namespace := range namespaces {
		input.NamespaceLabels[namespace.Name] = namespace.Labels
	}
}
