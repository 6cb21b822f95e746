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
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

// othersAnnotations are those that no pod and no PodGroup carries.
var othersAnnotations = []string{
	"AnnotationCardQuota", "AnnotationNamespaceSelector", "AnnotationCardAllocated", "annotationClosedByParent", // of Queues
	"AnnotationCardDeserved", "AnnotationCardGuarantee", "AnnotationStopPolicy", "AnnotationParentOnly", "AnnotationHoldMessage", // of Queues in a tree
	"AnnotationCreatedBy", "AnnotationDescription", "AnnotationRenderedFrom", "AnnotationCardResources", // of what the operator makes
}

// TestEveryAnnotationIsKeptOrOfSomethingElse fails when an annotation is new:
// Who adds it says here whether caches of pods and PodGroups need it.
func TestEveryAnnotationIsKeptOrOfSomethingElse(t *testing.T) {
	files := token.NewFileSet()
	found := 0

	var paths []string
	for _, folder := range []string{"api/v1alpha1", "internal/workload", "internal/cardquota"} {
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
			check.That(t, kept != slices.Contains(othersAnnotations, name),
				"annotation %s (%s): kept %v; keep it in podAnnotations or groupAnnotations, or name it as one of other objects", name, text, kept)

			return true
		})
	}

	check.That(t, found >= 14, "only %d annotations were found", found)
	for _, key := range []string{
		v1beta1.KubeGroupNameAnnotationKey,
		v1beta1.QueueNameAnnotationKey,
		v1beta1.PodPreemptable,
		batchv1alpha1.QueueNameKey,
	} {
		check.That(t, podAnnotations[key] > 0, "annotation %s of Volcano is not kept", key)
	}
}

// heavy is metadata as large as a tenant can make it.
func heavy(keep map[string]string) metav1.ObjectMeta {
	controller := true
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
		Controller: &controller,
	})
	return meta
}

// weight is roughly how many bytes metadata holds.
func weight(meta metav1.ObjectMeta) int {
	n := 0
	for key, value := range meta.Annotations {
		n += len(key) + len(value)
	}
	for key, value := range meta.Labels {
		n += len(key) + len(value)
	}
	return n + 100*(len(meta.OwnerReferences)+len(meta.Finalizers)+len(meta.ManagedFields))
}

func TestAHeavyPodWeighsLittleInTheCache(t *testing.T) {
	inventory := h200()
	for t, tc := range check.Cases(t, map[string]struct {
		annotations map[string]string
		most        int
		refused     bool
	}{
		"notes": {
			annotations: map[string]string{"volcano.sh/card.name": "NVIDIA-H200", "scheduling.volcano.sh/queue-name": "q"},
			most:        1000,
		},
		"a card name of spaces": {map[string]string{"volcano.sh/card.name": "NVIDIA-H200" + strings.Repeat(" ", 200<<10)}, 6000, true},
		"a card name too long":  {map[string]string{"volcano.sh/card.name": strings.Repeat("A|", 100<<10)}, 6000, true},
		"a queue without end":   {map[string]string{"scheduling.volcano.sh/queue-name": strings.Repeat("q", 200<<10)}, 1000, false},
		"the longest queue":     {map[string]string{"scheduling.volcano.sh/queue-name": strings.Repeat("q", 253)}, 1000, false},
	}) {
		whole := &corev1.Pod{ObjectMeta: heavy(tc.annotations), Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}}}}}}
		stripped := Pod(whole.DeepCopy())
		got := weight(stripped.ObjectMeta)
		check.That(t, got <= tc.most, "its metadata weighs %d bytes of %d, want at most %d", got, weight(whole.ObjectMeta), tc.most)

		resolver := workload.Resolver{Inventory: inventory}
		is := resolver.Request(stripped)
		was := resolver.Request(whole)
		refused := is.Denied != nil
		check.That(t, refused == tc.refused && refused == (was.Denied != nil),
			"it is refused: %v, as a whole: %v, want %v", is.Denied, was.Denied, tc.refused)

		queue := resolver.Queue(stripped, nil, "")
		wholeQueue := resolver.Queue(whole, nil, "")
		cannotExist := len(wholeQueue) > 253 && len(queue) > 253
		check.That(t, queue == wholeQueue || cannotExist, "it is in queue %q, as a whole in %q", queue, wholeQueue)

		owner := metav1.GetControllerOf(stripped)
		wholeOwner := metav1.GetControllerOf(whole)
		check.That(t, owner != nil && *owner.Controller == *wholeOwner.Controller && owner.UID == wholeOwner.UID,
			"it is controlled by %v, as a whole by %v", owner, wholeOwner)
	}
}
