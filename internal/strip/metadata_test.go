package strip

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// annotationsOfOthers are those that no pod and no PodGroup carries.
var annotationsOfOthers = []string{
	"AnnotationCardQuota", "AnnotationNamespaceSelector", "AnnotationUnlimitedResources", "AnnotationCardAllocated", "annotationClosedByParent", // of Queues
	"AnnotationCardDeserved", "AnnotationCardGuarantee", "AnnotationStopPolicy", "AnnotationParentOnly", "AnnotationHoldMessage", // of Queues in a tree
	"AnnotationBefore",                                                                                  // of Queues that the operator adopted
	"AnnotationCreatedBy", "AnnotationDescription", "AnnotationRenderedFrom", "AnnotationCardResources", // of what the operator makes
	"AnnotationInjectCAFrom", // of webhook configurations
}

// TestEveryAnnotationIsKeptOrOfSomethingElse: the operator keeps pods and PodGroups without the annotations that it
// does not read. This test finds the constants of all annotations in the sources. Each is kept, or
// annotationsOfOthers has it, because no pod or PodGroup carries it. So a new annotation fails here until a developer
// decides. Four annotations of Volcano are kept, too.
func TestEveryAnnotationIsKeptOrOfSomethingElse(t *testing.T) {
	files := token.NewFileSet()
	found := 0

	var paths []string
	for _, folder := range []string{"api/v1alpha1", "internal/workload", "internal/waiting", "internal/queueusage", "internal/cardquota"} {
		paths = append(paths, check.Value(filepath.Glob("../../"+folder+"/*.go"))(t)...)
	}

	for _, path := range paths {
		ast.Inspect(check.Value(parser.ParseFile(files, path, nil, 0))(t), func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "annotation") {
				return true
			}

			name := spec.Names[0].Name
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text := check.Value(strconv.Unquote(literal.Value))(t)

			found++
			_, ofPods := podAnnotations[text]
			_, ofGroups := groupAnnotations[text]
			kept := ofPods || ofGroups
			check.That(t, kept != slices.Contains(annotationsOfOthers, name),
				"annotation %s (%s): kept %v; keep it in podAnnotations or groupAnnotations, or name it as one of other objects", name, text, kept)

			return true
		})
	}

	check.That(t, found > len(annotationsOfOthers), "only %d annotations were found", found)
	for _, key := range []string{
		v1beta1.KubeGroupNameAnnotationKey,
		v1beta1.QueueNameAnnotationKey,
		v1beta1.PodPreemptable,
		batchv1alpha1.QueueNameKey,
	} {
		check.That(t, podAnnotations[key] > 0, "annotation %s of Volcano is not kept", key)
	}
}

// newHeavyMeta is metadata as large as a tenant can make it, with these annotations beside others.
func newHeavyMeta(keep map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace:   "lab",
		Name:        "a",
		UID:         "u",
		Annotations: map[string]string{"example.com/notes": strings.Repeat("n", 200<<10)},
		Labels:      map[string]string{workload.PodTemplateHash: "x"},
		Finalizers:  []string{strings.Repeat("f", 60)},
	}
	for key, value := range keep {
		meta.Annotations[key] = value
	}

	for i := range 1000 {
		meta.Labels["example.com/"+strconv.Itoa(i)] = strings.Repeat("l", 63)
		meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{Kind: "ConfigMap", Name: strconv.Itoa(i)})
	}

	meta.OwnerReferences = append(meta.OwnerReferences, metav1.OwnerReference{
		APIVersion: "apps/v1",
		Kind:       "ReplicaSet",
		Name:       "web-x",
		UID:        "r",
		Controller: ptr.To(true),
	})
	return meta
}

// weightOf is roughly how many bytes metadata uses.
func weightOf(meta metav1.ObjectMeta) int {
	n := 0
	for key, value := range meta.Annotations {
		n += len(key) + len(value)
	}
	for key, value := range meta.Labels {
		n += len(key) + len(value)
	}
	return n + 100*(len(meta.OwnerReferences)+len(meta.Finalizers)+len(meta.ManagedFields))
}

// TestAHeavyPodWeighsLittleInTheCache: the operator keeps all pods in its memory, and a tenant can write a
// megabyte into the metadata of each. A stripped pod keeps only what counts, in 1,000 bytes, or 6,000 with a
// card name that is too long. Names of cards or of a queue that are too long are cut. The stripped pod has the
// owner and the queue of the whole pod, and is refused like it. Queue names that are too long to exist may
// differ.
func TestAHeavyPodWeighsLittleInTheCache(t *testing.T) {
	inventory := newInventory()
	for t, tc := range check.Cases(t, map[string]struct {
		annotations map[string]string
		maxWeight   int
		wantRefused bool
	}{
		"a card name, a queue, and long notes": {
			annotations: map[string]string{"volcano.sh/card.name": "NVIDIA-H200", "scheduling.volcano.sh/queue-name": "q"},
			maxWeight:   1000,
		},
		"a card name with 200 KiB of spaces": {
			annotations: map[string]string{"volcano.sh/card.name": "NVIDIA-H200" + strings.Repeat(" ", 200<<10)},
			maxWeight:   6000,
			wantRefused: true,
		},
		"a card name of 200 KiB": {
			annotations: map[string]string{"volcano.sh/card.name": strings.Repeat("A|", 100<<10)},
			maxWeight:   6000, // 4096 bytes of card names are valid, and one more is kept, so that it stays refused
			wantRefused: true,
		},
		"a queue name of 200 KiB": {
			annotations: map[string]string{"scheduling.volcano.sh/queue-name": strings.Repeat("q", 200<<10)},
			maxWeight:   1000,
		},
		"a queue name of 253 characters, the longest that exists": {
			annotations: map[string]string{"scheduling.volcano.sh/queue-name": strings.Repeat("q", 253)},
			maxWeight:   1000,
		},
	}) {
		whole := &corev1.Pod{ObjectMeta: newHeavyMeta(tc.annotations), Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}}}}
		stripped := Pod(whole.DeepCopy())
		got := weightOf(stripped.ObjectMeta)
		check.That(t, got <= tc.maxWeight, "the metadata weighs %d bytes of %d, want at most %d", got, weightOf(whole.ObjectMeta),
			tc.maxWeight)

		resolver := workload.Resolver{Inventory: inventory}
		ofStripped := resolver.Request(stripped)
		ofWhole := resolver.Request(whole)
		check.Equal(t, "the stripped pod is refused", tc.wantRefused, ofStripped.Denied != nil)
		check.Equal(t, "the whole pod is refused", tc.wantRefused, ofWhole.Denied != nil)

		queue := resolver.Queue(stripped, nil, "")
		wholeQueue := resolver.Queue(whole, nil, "")
		cannotExist := len(wholeQueue) > 253 && len(queue) > 253
		check.That(t, queue == wholeQueue || cannotExist, "the stripped pod is in queue %q, the whole one in %q", queue, wholeQueue)

		owner := metav1.GetControllerOf(stripped)
		wholeOwner := metav1.GetControllerOf(whole)
		check.That(t, owner != nil && *owner.Controller == *wholeOwner.Controller && owner.UID == wholeOwner.UID,
			"the stripped pod is controlled by %v, the whole one by %v", owner, wholeOwner)
	}
}
