package servicetype

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/internal/testing/check"
)

// owned is a pod with the given owners.
func owned(owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners}}
}

func controller(apiVersion, kind string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: &yes}
}

// bystander owns a pod without controlling it.
func bystander(apiVersion, kind string) metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "o", Controller: &no}
}

// hashed is a pod as a Deployment's ReplicaSet labels it.
func hashed(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{"pod-template-hash": "5d8f7c9b6"}
	return pod
}

func TestTheOwnersKindStandsForAServiceType(t *testing.T) {
	vcjob := controller("batch.volcano.sh/v1alpha1", "Job")
	batch := controller("batch/v1", "Job")

	replicas := controller("apps/v1", "ReplicaSet")
	for t, tc := range check.Cases(t, map[string]struct {
		owners OwnerKinds
		pod    *corev1.Pod
		want   string
	}{
		"a Deployment's pod":                          {OwnerKinds{"Deployment": "inference"}, hashed(owned(replicas)), "inference"},
		"a Deployment's pod, the key with its group":  {OwnerKinds{"Deployment.apps": "inference"}, hashed(owned(replicas)), "inference"},
		"a Deployment goes before its ReplicaSet":     {OwnerKinds{"Deployment": "inference", "ReplicaSet": "training", "ReplicaSet.apps": "training"}, hashed(owned(replicas)), "inference"},
		"a Deployment's pod is a ReplicaSet's pod":    {OwnerKinds{"ReplicaSet": "training"}, hashed(owned(replicas)), "training"},
		"a bare ReplicaSet is no Deployment":          {OwnerKinds{"Deployment": "inference"}, owned(replicas), ""},
		"a bare ReplicaSet":                           {OwnerKinds{"Deployment": "inference", "ReplicaSet": "training"}, owned(replicas), "training"},
		"a ReplicaSet of another group":               {OwnerKinds{"Deployment": "inference"}, hashed(owned(controller("other.io/v1", "ReplicaSet"))), ""},
		"a StatefulSet with the label of Deployments": {OwnerKinds{"Deployment": "inference", "StatefulSet": "training"}, hashed(owned(controller("apps/v1", "StatefulSet"))), "training"},

		"Job is both kinds of Jobs, Volcano's":     {OwnerKinds{"Job": "training"}, owned(vcjob), "training"},
		"Job is both kinds of Jobs, Kubernetes'":   {OwnerKinds{"Job": "training"}, owned(batch), "training"},
		"Job.batch.volcano.sh is Volcano's":        {OwnerKinds{"Job.batch.volcano.sh": "training"}, owned(vcjob), "training"},
		"Job.batch.volcano.sh is not Kubernetes'":  {OwnerKinds{"Job.batch.volcano.sh": "training"}, owned(batch), ""},
		"Job.batch is Kubernetes'":                 {OwnerKinds{"Job.batch": "training"}, owned(batch), "training"},
		"Job.batch is not Volcano's":               {OwnerKinds{"Job.batch": "training"}, owned(vcjob), ""},
		"the key with the group goes first":        {OwnerKinds{"Job": "inference", "Job.batch.volcano.sh": "training"}, owned(vcjob), "training"},
		"the key without for the other group":      {OwnerKinds{"Job": "inference", "Job.batch.volcano.sh": "training"}, owned(batch), "inference"},
		"the version of the group does not matter": {OwnerKinds{"Job.batch": "training"}, owned(controller("batch/v1beta1", "Job")), "training"},

		"a kind of the group without a name":       {OwnerKinds{"ReplicationController": "inference"}, owned(controller("v1", "ReplicationController")), "inference"},
		"a kind of another group of the same name": {OwnerKinds{"Node": "inference"}, owned(controller("v1", "Pod")), ""},
		"no owner":                          {OwnerKinds{"Job": "training"}, owned(), ""},
		"an owner that controls nothing":    {OwnerKinds{"Job": "training"}, owned(bystander("batch/v1", "Job")), ""},
		"an owner that does not say so":     {OwnerKinds{"Job": "training"}, owned(metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"}), ""},
		"the controller among other owners": {OwnerKinds{"Job": "training", "ConfigMap": "inference"}, owned(bystander("v1", "ConfigMap"), batch), "training"},
		"a kind is spelt exactly":           {OwnerKinds{"Deployments": "inference", "Replicaset": "inference"}, hashed(owned(replicas)), ""},
		"an owner whose version is odd":     {OwnerKinds{"Job": "training"}, owned(controller("a/b/c", "Job")), "training"},
		"nothing is configured":             {nil, owned(batch), ""},
	}) {
		check.Equal(t, "service type", tc.want, tc.owners.TypeFor(tc.pod))
	}
}

func TestOwnersAreKindsAndServiceTypes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		owners OwnerKinds
		want   string // "" when it is accepted
	}{
		"a kind":                           {OwnerKinds{"Job": "training"}, ""},
		"a kind with its group":            {OwnerKinds{"Job.batch.volcano.sh": "training"}, ""},
		"a kind of 63 characters":          {OwnerKinds{"K" + strings.Repeat("x", 62): "t"}, ""},
		"a name of 63 characters":          {OwnerKinds{"Job": strings.Repeat("t", 63)}, ""},
		"a name of one digit":              {OwnerKinds{"Job": "1"}, ""},
		"nothing":                          {OwnerKinds{}, ""},
		"a kind of 64 characters":          {OwnerKinds{"K" + strings.Repeat("x", 63): "t"}, "is no kind"},
		"a name of 64 characters":          {OwnerKinds{"Job": strings.Repeat("t", 64)}, "is no name"},
		"a resource":                       {OwnerKinds{"jobs": "training"}, `"jobs" is no kind: write for example Job or Job.batch.volcano.sh`},
		"a kind with its version":          {OwnerKinds{"batch/v1": "training"}, "is no kind"},
		"a kind with a slash":              {OwnerKinds{"batch/Job": "training"}, "is no kind"},
		"a kind that ends with a dot":      {OwnerKinds{"Job.": "training"}, "is no kind"},
		"a group in upper case":            {OwnerKinds{"Job.Batch": "training"}, "is no kind"},
		"a kind without a name":            {OwnerKinds{"": "training"}, `"" is no kind`},
		"a kind with a line break":         {OwnerKinds{"Job\n": "training"}, `"Job\n" is no kind`},
		"a type in upper case":             {OwnerKinds{"Job": "Training"}, `kind "Job": service type "Training" is no name: write lower-case letters, digits and dashes, at most 63`},
		"a type with a space":              {OwnerKinds{"Job": "batch jobs"}, "is no name"},
		"a type that ends with a dash":     {OwnerKinds{"Job": "training-"}, "is no name"},
		"a type with a line break":         {OwnerKinds{"Job": "training\n"}, `"training\n" is no name`},
		"no type":                          {OwnerKinds{"Job": ""}, `service type "" is no name`},
		"two faults, in the order of keys": {OwnerKinds{"b": "x", "a": "x"}, "\"a\" is no kind: write for example Job or Job.batch.volcano.sh\n\"b\""},
	}) {
		check.Says(t, tc.owners.Validate(), tc.want)
	}
}
