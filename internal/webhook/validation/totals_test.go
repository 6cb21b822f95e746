package validation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
)

// TestCardRequestTotals: card.request against the pods of the job.
func TestCardRequestTotals(t *testing.T) {
	worker := func(cards string) []notes { return []notes{{name: cards}} }
	job := func(text string, cards []notes, limits amounts) runtime.Object {
		var annotations notes
		if cards != nil {
			annotations = cards[0]
		}
		return vcjobOf("open", notes{request: text}, task(2, annotations, limits))
	}

	h200 := worker("NVIDIA-H200")
	four := amounts{gpu: "4"}
	for t, tc := range check.Cases(t, map[string]struct {
		object           runtime.Object
		refusal, warning string
	}{
		"what its pods ask for":              {job(`{"NVIDIA-H200":8}`, h200, four), "", ""},
		"no JSON":                            {job(`NVIDIA-H200: 8`, h200, four), `metadata.annotations[volcano.sh/card.request]: Invalid value: "NVIDIA-H200: 8": "NVIDIA-H200: 8" is not a JSON object: write it like {"NVIDIA-H200":8}`, ""},
		"cards that no pod asks for":         {job(`{"NVIDIA-H200/mig-1g.18gb-mixed":4}`, h200, four), "requests 4 NVIDIA-H200/mig-1g.18gb-mixed, but none of its pods requests nvidia.com/mig-1g.18gb", ""},
		"cards although no pod asks":         {job(`{"NVIDIA-H200":8}`, nil, nil), "none of its pods requests nvidia.com/gpu", ""},
		"other cards than its pods name":     {job(`{"NVIDIA-H800":8}`, h200, four), "requests 8 NVIDIA-H800, but its pods name other cards in volcano.sh/card.name (NVIDIA-H200): write the same cards in both", ""},
		"one of the cards its pods name":     {job(`{"NVIDIA-H800":8}`, worker("NVIDIA-H200|NVIDIA-H800"), four), "", ""},
		"a card, its pods name none":         {job(`{"NVIDIA-H800":8}`, nil, four), "", ""},
		"another number than its pods":       {job(`{"NVIDIA-H200":4}`, h200, four), "", "says 4 nvidia.com/gpu in total, but its pods request 8"},
		"two requests of one resource":       {job(`{"NVIDIA-H200":4,"NVIDIA-H800":4}`, worker("NVIDIA-H200|NVIDIA-H800"), four), "", ""},
		"none of a card":                     {job(`{"NVIDIA-H800":0,"NVIDIA-H200":8}`, h200, four), "", ""},
		"a card that no node offers":         {job(`{"NVIDIA-B300":8}`, nil, four), "", "names NVIDIA-B300, which no node offers now"},
		"a task whose card is not known yet": {vcjobOf("open", notes{request: `{"NVIDIA-H200":8}`}, task(1, nil, amounts{ascend: "1"})), "", "no node says which card that is"},
		"a Deployment of unknown size":       {deployment(nil, four, func(d *appsv1.Deployment) { d.Annotations = notes{request: `{"NVIDIA-H200":400}`} }), "", ""},
		"a PodGroup, whose pods are others":  {&v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: notes{request: `{"NVIDIA-H200":400}`}}}, "", ""},
		"a PodGroup that cannot be read":     {&v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Annotations: notes{request: `[]`}}}, `metadata.annotations[volcano.sh/card.request]: Invalid value: "[]": "[]" is not a JSON object`, ""},
	}) {
		load, _ := WorkloadOf(tc.object)
		answers(t, judged(t, load, nil, snapshotOf(nil)), tc.refusal, tc.warning)
	}
}
