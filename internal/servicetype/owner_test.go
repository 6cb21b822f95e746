package servicetype

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"cardquota.dev/operator/internal/testing/check"
)

// newPod returns a pod with the given owners.
func newPod(owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}}
}

func newController(apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: ptr.To(true)}
}

// newOwner returns an owner that is not the controller.
func newOwner(apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: ptr.To(false)}
}

// withTemplateHash labels a pod as a Deployment's ReplicaSet does.
func withTemplateHash(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{"pod-template-hash": "5d8f7c9b6"}
	return pod
}

// TestServiceTypeIsThatOfTheOwnersKind: the policy can give pods a service type by the kind of their controller. A
// key is a kind, or a kind with its group: "Job" is Volcano's and Kubernetes', "Job.batch" only Kubernetes'. Where
// both keys fit, the one with the group counts. A ReplicaSet controls the pods of a Deployment. The label
// pod-template-hash shows that the pod is of a Deployment. Then the key of the Deployment comes before that of the
// ReplicaSet.
func TestServiceTypeIsThatOfTheOwnersKind(t *testing.T) {
	vcjob := newController("batch.volcano.sh/v1alpha1", "Job")
	batch := newController("batch/v1", "Job")

	replicas := newController("apps/v1", "ReplicaSet")
	for t, tc := range check.Cases(t, map[string]struct {
		owners OwnerKinds
		pod    *corev1.Pod
		want   string
	}{
		"a Deployment's pod": {
			owners: OwnerKinds{"Deployment": "inference"},
			pod:    withTemplateHash(newPod(replicas)),
			want:   "inference",
		},
		"a Deployment's pod, the key with its group": {
			owners: OwnerKinds{"Deployment.apps": "inference"},
			pod:    withTemplateHash(newPod(replicas)),
			want:   "inference",
		},
		"a Deployment's pod, keys for both: that of the Deployment": {
			owners: OwnerKinds{"Deployment": "inference", "ReplicaSet": "training", "ReplicaSet.apps": "training"},
			pod:    withTemplateHash(newPod(replicas)),
			want:   "inference",
		},
		"a Deployment's pod, a key for ReplicaSets": {
			owners: OwnerKinds{"ReplicaSet": "training"},
			pod:    withTemplateHash(newPod(replicas)),
			want:   "training",
		},
		"a ReplicaSet of no Deployment, a key for Deployments": {owners: OwnerKinds{"Deployment": "inference"}, pod: newPod(replicas)},
		"a ReplicaSet of no Deployment, keys for both": {
			owners: OwnerKinds{"Deployment": "inference", "ReplicaSet": "training"},
			pod:    newPod(replicas),
			want:   "training",
		},
		"a ReplicaSet of another group": {
			owners: OwnerKinds{"Deployment": "inference"},
			pod:    withTemplateHash(newPod(newController("other.io/v1", "ReplicaSet"))),
		},
		"a StatefulSet with the label of Deployments": {
			owners: OwnerKinds{"Deployment": "inference", "StatefulSet": "training"},
			pod:    withTemplateHash(newPod(newController("apps/v1", "StatefulSet"))),
			want:   "training",
		},

		"Job is both kinds of Jobs, Volcano's":    {OwnerKinds{"Job": "training"}, newPod(vcjob), "training"},
		"Job is both kinds of Jobs, Kubernetes'":  {OwnerKinds{"Job": "training"}, newPod(batch), "training"},
		"Job.batch.volcano.sh is Volcano's":       {OwnerKinds{"Job.batch.volcano.sh": "training"}, newPod(vcjob), "training"},
		"Job.batch.volcano.sh is not Kubernetes'": {owners: OwnerKinds{"Job.batch.volcano.sh": "training"}, pod: newPod(batch)},
		"Job.batch is Kubernetes'":                {OwnerKinds{"Job.batch": "training"}, newPod(batch), "training"},
		"Job.batch is not Volcano's":              {owners: OwnerKinds{"Job.batch": "training"}, pod: newPod(vcjob)},
		"Volcano's Job, keys with and without the group": {
			owners: OwnerKinds{"Job": "inference", "Job.batch.volcano.sh": "training"},
			pod:    newPod(vcjob),
			want:   "training",
		},
		"Kubernetes' Job, a key with Volcano's group and one without": {
			owners: OwnerKinds{"Job": "inference", "Job.batch.volcano.sh": "training"},
			pod:    newPod(batch),
			want:   "inference",
		},
		"the version of the group does not matter": {
			owners: OwnerKinds{"Job.batch": "training"},
			pod:    newPod(newController("batch/v1beta1", "Job")),
			want:   "training",
		},

		"a kind of the group without a name": {
			owners: OwnerKinds{"ReplicationController": "inference"},
			pod:    newPod(newController("v1", "ReplicationController")),
			want:   "inference",
		},
		"only a key of another kind":          {owners: OwnerKinds{"Node": "inference"}, pod: newPod(newController("v1", "Pod"))},
		"no owner":                            {owners: OwnerKinds{"Job": "training"}, pod: newPod()},
		"an owner that is not the controller": {owners: OwnerKinds{"Job": "training"}, pod: newPod(newOwner("batch/v1", "Job"))},
		"an owner that does not say whether it is the controller": {
			owners: OwnerKinds{"Job": "training"},
			pod:    newPod(metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"}),
		},
		"a controller and another owner": {
			owners: OwnerKinds{"Job": "training", "ConfigMap": "inference"},
			pod:    newPod(newOwner("v1", "ConfigMap"), batch),
			want:   "training",
		},
		"misspelt kinds": {
			owners: OwnerKinds{"Deployments": "inference", "Replicaset": "inference"},
			pod:    withTemplateHash(newPod(replicas)),
		},
		"an invalid API version, and a key without a group: the kind fits": {
			owners: OwnerKinds{"Job": "training"},
			pod:    newPod(newController("a/b/c", "Job")),
			want:   "training",
		},
		"no keys": {pod: newPod(batch)},
	}) {
		check.Equal(t, "service type", tc.want, tc.owners.TypeFor(tc.pod))
	}
}

// TestOwnerKindsAreValidated: keys must be kinds, with or without a group, and values must be names of service types.
// A kind begins with an upper-case letter. Both have at most 63 characters, the group aside. The error says how to
// write them.
func TestOwnerKindsAreValidated(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		owners OwnerKinds
		want   string // "" when it is accepted
	}{
		"a kind":                  {OwnerKinds{"Job": "training"}, ""},
		"a kind with its group":   {OwnerKinds{"Job.batch.volcano.sh": "training"}, ""},
		"a kind of 63 characters": {OwnerKinds{"K" + strings.Repeat("x", 62): "t"}, ""},
		"a type of 63 characters": {OwnerKinds{"Job": strings.Repeat("t", 63)}, ""},
		"a type of one digit":     {OwnerKinds{"Job": "1"}, ""},
		"nothing":                 {OwnerKinds{}, ""},
		"a kind of 64 characters": {OwnerKinds{"K" + strings.Repeat("x", 63): "t"}, "is no kind"},
		"a type of 64 characters": {OwnerKinds{"Job": strings.Repeat("t", 64)}, "is no name"},
		"a resource": {
			owners: OwnerKinds{"jobs": "training"},
			want:   `"jobs" is no kind: write for example Job or Job.batch.volcano.sh`,
		},
		"a group with its version":    {OwnerKinds{"batch/v1": "training"}, "is no kind"},
		"a kind with a slash":         {OwnerKinds{"batch/Job": "training"}, "is no kind"},
		"a kind that ends with a dot": {OwnerKinds{"Job.": "training"}, "is no kind"},
		"a group in upper case":       {OwnerKinds{"Job.Batch": "training"}, "is no kind"},
		"a kind without a name":       {OwnerKinds{"": "training"}, `"" is no kind`},
		"a kind with a line break":    {OwnerKinds{"Job\n": "training"}, `"Job\n" is no kind`},
		"a type in upper case": {
			owners: OwnerKinds{"Job": "Training"},
			want:   `kind "Job": service type "Training" is no name: write lower-case letters, digits and dashes, at most 63`,
		},
		"a type with a space":          {OwnerKinds{"Job": "batch jobs"}, "is no name"},
		"a type that ends with a dash": {OwnerKinds{"Job": "training-"}, "is no name"},
		"a type with a line break":     {OwnerKinds{"Job": "training\n"}, `"training\n" is no name`},
		"no type":                      {OwnerKinds{"Job": ""}, `service type "" is no name`},
		"two kinds in lower case: two errors, sorted by kind": {
			owners: OwnerKinds{"b": "x", "a": "x"},
			want:   "\"a\" is no kind: write for example Job or Job.batch.volcano.sh\n\"b\"",
		},
	}) {
		check.Says(t, tc.owners.Validate(), tc.want)
	}
}
