package validation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestTotalOfAJobMustFitItsPods: the annotation card.request states how many cards a job needs in total, before its pods
// exist. The webhook refuses a total of cards that the job's pods cannot use, and warns of another number, except for
// workloads that can be scaled. The vcjob here has 2 pods with 4 cards each, 8 in all, and they name NVIDIA-H200, unless
// the row says otherwise.
func TestTotalOfAJobMustFitItsPods(t *testing.T) {
	naming := func(cards string) annotationMap { return annotationMap{cardName: cards} }
	job := func(total string, cardNames annotationMap, limits amounts) runtime.Object {
		return newVCJob("open", annotationMap{cardRequest: total}, newTask(2, cardNames, limits))
	}

	namingH200 := naming("NVIDIA-H200")
	four := amounts{gpu: "4"}
	for t, tc := range check.Cases(t, map[string]struct {
		object                   runtime.Object
		wantRefusal, wantWarning string
	}{
		"as many cards as its pods request": {object: job(`{"NVIDIA-H200":8}`, namingH200, four)},
		"a total that is not JSON: refused": {
			object:      job(`NVIDIA-H200: 8`, namingH200, four),
			wantRefusal: `metadata.annotations[volcano.sh/card.request]: Invalid value: "NVIDIA-H200: 8": "NVIDIA-H200: 8" is not a JSON object: write it like {"NVIDIA-H200":8}`,
		},
		"slices that no pod requests: refused": {
			object:      job(`{"NVIDIA-H200/mig-1g.18gb-mixed":4}`, namingH200, four),
			wantRefusal: "requests 4 NVIDIA-H200/mig-1g.18gb-mixed, but none of its pods requests nvidia.com/mig-1g.18gb",
		},
		"cards, but the pods request none: refused": {
			object:      job(`{"NVIDIA-H200":8}`, nil, nil),
			wantRefusal: "none of its pods requests nvidia.com/gpu",
		},
		"other cards than its pods name: refused": {
			object:      job(`{"NVIDIA-H800":8}`, namingH200, four),
			wantRefusal: "requests 8 NVIDIA-H800, but its pods name other cards in volcano.sh/card.name (NVIDIA-H200): write the same cards in both",
		},
		"one of the alternatives of its pods":  {object: job(`{"NVIDIA-H800":8}`, naming("NVIDIA-H200|NVIDIA-H800"), four)},
		"8 NVIDIA-H800, its pods name no card": {object: job(`{"NVIDIA-H800":8}`, nil, four)},
		"4 cards, its pods request 8": {
			object:      job(`{"NVIDIA-H200":4}`, namingH200, four),
			wantWarning: "says 4 nvidia.com/gpu in total, but its pods request 8",
		},
		"4 of each of two alternatives, 8 in all": {
			object: job(`{"NVIDIA-H200":4,"NVIDIA-H800":4}`, naming("NVIDIA-H200|NVIDIA-H800"), four),
		},
		"0 of another card": {object: job(`{"NVIDIA-H800":0,"NVIDIA-H200":8}`, namingH200, four)},
		"a card that no node offers, its pods name no card": {
			object:      job(`{"NVIDIA-B300":8}`, nil, four),
			wantWarning: "names NVIDIA-B300, which no node offers now",
		},
		"a task whose card no label names: the total cannot be compared": {
			object:      newVCJob("open", annotationMap{cardRequest: `{"NVIDIA-H200":8}`}, newTask(1, nil, amounts{ascend: "1"})),
			wantWarning: "no node says which card that is",
		},
		"a Deployment, which can be scaled": {
			object: newDeployment(nil, four, func(d *appsv1.Deployment) { d.Annotations = annotationMap{cardRequest: `{"NVIDIA-H200":400}`} }),
		},
		"a PodGroup, whose pods are other objects": {
			object: &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: annotationMap{cardRequest: `{"NVIDIA-H200":400}`}}},
		},
		"a PodGroup with a total that is not a JSON object: refused": {
			object:      &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Annotations: annotationMap{cardRequest: `[]`}}},
			wantRefusal: `metadata.annotations[volcano.sh/card.request]: Invalid value: "[]": "[]" is not a JSON object`,
		},
	}) {
		checkNewWorkload(t, tc.object, newInput(nil), tc.wantRefusal, tc.wantWarning)
	}
}
