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
	vcjob, batch, replicas := controller("batch.volcano.sh/v1alpha1", "Job"), controller("batch/v1", "Job"), controller("apps/v1", "ReplicaSet")
	for t, tc := range check.Cases(t, map[string]struct {
		owners Owners
		pod    *corev1.Pod
		want   string
	}{
		"a Deployment's pod":                          {Owners{"Deployment": "inference"}, hashed(owned(replicas)), "inference"},
		"a Deployment's pod, the key with its group":  {Owners{"Deployment.apps": "inference"}, hashed(owned(replicas)), "inference"},
		"a Deployment goes before its ReplicaSet":     {Owners{"Deployment": "inference", "ReplicaSet": "training", "ReplicaSet.apps": "training"}, hashed(owned(replicas)), "inference"},
		"a Deployment's pod is a ReplicaSet's pod":    {Owners{"ReplicaSet": "training"}, hashed(owned(replicas)), "training"},
		"a bare ReplicaSet is no Deployment":          {Owners{"Deployment": "inference"}, owned(replicas), ""},
		"a bare ReplicaSet":                           {Owners{"Deployment": "inference", "ReplicaSet": "training"}, owned(replicas), "training"},
		"a ReplicaSet of another group":               {Owners{"Deployment": "inference"}, hashed(owned(controller("other.io/v1", "ReplicaSet"))), ""},
		"a StatefulSet with the label of Deployments": {Owners{"Deployment": "inference", "StatefulSet": "training"}, hashed(owned(controller("apps/v1", "StatefulSet"))), "training"},

		"Job is both kinds of Jobs, Volcano's":     {Owners{"Job": "training"}, owned(vcjob), "training"},
		"Job is both kinds of Jobs, Kubernetes'":   {Owners{"Job": "training"}, owned(batch), "training"},
		"Job.batch.volcano.sh is Volcano's":        {Owners{"Job.batch.volcano.sh": "training"}, owned(vcjob), "training"},
		"Job.batch.volcano.sh is not Kubernetes'":  {Owners{"Job.batch.volcano.sh": "training"}, owned(batch), ""},
		"Job.batch is Kubernetes'":                 {Owners{"Job.batch": "training"}, owned(batch), "training"},
		"Job.batch is not Volcano's":               {Owners{"Job.batch": "training"}, owned(vcjob), ""},
		"the key with the group goes first":        {Owners{"Job": "inference", "Job.batch.volcano.sh": "training"}, owned(vcjob), "training"},
		"the key without for the other group":      {Owners{"Job": "inference", "Job.batch.volcano.sh": "training"}, owned(batch), "inference"},
		"the version of the group does not matter": {Owners{"Job.batch": "training"}, owned(controller("batch/v1beta1", "Job")), "training"},

		"a kind of the group without a name":       {Owners{"ReplicationController": "inference"}, owned(controller("v1", "ReplicationController")), "inference"},
		"a kind of another group of the same name": {Owners{"Node": "inference"}, owned(controller("v1", "Pod")), ""},
		"no owner":                          {Owners{"Job": "training"}, owned(), ""},
		"an owner that controls nothing":    {Owners{"Job": "training"}, owned(bystander("batch/v1", "Job")), ""},
		"an owner that does not say so":     {Owners{"Job": "training"}, owned(metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job"}), ""},
		"the controller among other owners": {Owners{"Job": "training", "ConfigMap": "inference"}, owned(bystander("v1", "ConfigMap"), batch), "training"},
		"a kind is spelt exactly":           {Owners{"Deployments": "inference", "Replicaset": "inference"}, hashed(owned(replicas)), ""},
		"an owner whose version is odd":     {Owners{"Job": "training"}, owned(controller("a/b/c", "Job")), "training"},
		"nothing is configured":             {nil, owned(batch), ""},
	}) {
		check.Equal(t, "service type", tc.want, tc.owners.TypeOf(tc.pod))
	}
}

func TestOwnersAreKindsAndServiceTypes(t *testing.T) {
	for t, tc := range check.Cases(t, map[string]struct {
		owners Owners
		want   string // "" when it is accepted
	}{
		"a kind":                                {Owners{"Job": "training"}, ""},
		"a kind with its group":                 {Owners{"Job.batch.volcano.sh": "training"}, ""},
		"a kind of 63 characters":               {Owners{"K" + strings.Repeat("x", 62): "t"}, ""},
		"a name of 63 characters":               {Owners{"Job": strings.Repeat("t", 63)}, ""},
		"a name of one digit":                   {Owners{"Job": "1"}, ""},
		"nothing":                               {Owners{}, ""},
		"a kind of 64 characters":               {Owners{"K" + strings.Repeat("x", 63): "t"}, "is no kind"},
		"a name of 64 characters":               {Owners{"Job": strings.Repeat("t", 64)}, "is no name"},
		"a resource":                            {Owners{"jobs": "training"}, `"jobs" is no kind: write for example Job or Job.batch.volcano.sh`},
		"a kind with its version":               {Owners{"batch/v1": "training"}, "is no kind"},
		"a kind with a slash":                   {Owners{"batch/Job": "training"}, "is no kind"},
		"a kind that ends with a dot":           {Owners{"Job.": "training"}, "is no kind"},
		"a group in upper case":                 {Owners{"Job.Batch": "training"}, "is no kind"},
		"a kind without a name":                 {Owners{"": "training"}, `"" is no kind`},
		"a kind with a line break":              {Owners{"Job\n": "training"}, `"Job\n" is no kind`},
		"a type in upper case":                  {Owners{"Job": "Training"}, `kind "Job": service type "Training" is no name: write lower-case letters, digits and dashes, at most 63`},
		"a type with a space":                   {Owners{"Job": "batch jobs"}, "is no name"},
		"a type that ends with a dash":          {Owners{"Job": "training-"}, "is no name"},
		"a type with a line break":              {Owners{"Job": "training\n"}, `"training\n" is no name`},
		"no type":                               {Owners{"Job": ""}, `service type "" is no name`},
		"two faults, told in the order of keys": {Owners{"b": "x", "a": "x"}, "\"a\" is no kind: write for example Job or Job.batch.volcano.sh\n\"b\""},
	}) {
		err := tc.owners.Validate()
		check.Says(t, err, tc.want)
	}
}
