package workload

import (
	"testing"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const preemptable = "volcano.sh/preemptable"

// TestWhoSaysWhetherAPodMayBeEvicted: annotation or label volcano.sh/preemptable of a pod says whether it may be
// evicted, and the annotation comes first. A pod without either is evictable if its PodGroup is. A pod that forbids
// it is never, and one that allows it needs its PodGroup to allow it too. A value that strconv.ParseBool cannot read
// forbids.
func TestWhoSaysWhetherAPodMayBeEvicted(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "1": true, "T": true, "TRUE": true, "false": false, "0": false,
		"yes": false, "no": false, "off": false, "": false, "true ": false, "tRUE": false, "2": false,
	} {
		ofGroup := map[string]string{preemptable: value}
		allowed := func() *builder.PodBuilder { return runningPod().Annotation(preemptable, "true") }
		forbidden := runningPod().Annotation(preemptable, "false")

		check.Equal(t, "annotation "+value, want, IsEvictable(runningPod().Annotation(preemptable, value).Obj(), nil))
		check.Equal(t, "label "+value, want, IsEvictable(runningPod().Label(preemptable, value).Obj(), nil))
		check.Equal(t, "annotation "+value+", label true", want,
			IsEvictable(runningPod().Annotation(preemptable, value).Label(preemptable, "true").Obj(), nil))
		check.Equal(t, "annotation true, label "+value, true, IsEvictable(allowed().Label(preemptable, value).Obj(), nil))

		check.Equal(t, "PodGroup "+value, want, IsEvictable(runningPod().Obj(), ofGroup))
		check.Equal(t, "annotation true, PodGroup "+value, want, IsEvictable(allowed().Obj(), ofGroup))
		check.Equal(t, "annotation false, PodGroup "+value, false, IsEvictable(forbidden.Obj(), ofGroup))
	}
}

// TestWhichPodsMayBeEvicted: a pod that says nothing may be evicted. Pods of namespace kube-system and of the two
// critical PriorityClasses of Kubernetes never are, even if they and their PodGroup allow it. Kubernetes' own
// components run in those. Other annotations, classes and namespaces with similar names decide nothing.
func TestWhichPodsMayBeEvicted(t *testing.T) {
	allows := map[string]string{preemptable: "true"}

	for name, tc := range map[string]struct {
		pod   *builder.PodBuilder
		group map[string]string // the annotations of its PodGroup
		want  bool
	}{
		"an ordinary pod without a PodGroup": {
			pod:  runningPod(),
			want: true,
		},
		"a PodGroup without annotations": {
			pod:   runningPod(),
			group: map[string]string{},
			want:  true,
		},
		"an annotation in another spelling forbids it, without effect": {
			pod:  runningPod().Annotation("volcano.sh/Preemptable", "false"),
			want: true,
		},
		"an annotation with a longer name forbids it, without effect": {
			pod:  runningPod().Annotation("volcano.sh/preemptable-by", "false"),
			want: true,
		},
		"class system-cluster-critical": {
			pod: runningPod().PriorityClass("system-cluster-critical"),
		},
		"class system-node-critical": {
			pod: runningPod().PriorityClass("system-node-critical"),
		},
		"class system-node-critical, and pod and PodGroup allow it": {
			pod:   runningPod().PriorityClass("system-node-critical").Annotation(preemptable, "true"),
			group: allows,
		},
		"class system-critical, which is not one of Kubernetes": {
			pod:  runningPod().PriorityClass("system-critical"),
			want: true,
		},
		"namespace kube-system": {
			pod: runningPodIn("kube-system"),
		},
		"namespace kube-system, and pod and PodGroup allow it": {
			pod:   runningPodIn("kube-system").Annotation(preemptable, "true"),
			group: allows,
		},
		"namespace kube-system-2":        {runningPodIn("kube-system-2"), nil, true},
		"namespace kube-public":          {runningPodIn("kube-public"), nil, true},
		"another class of high priority": {runningPod().PriorityClass("pc-high"), nil, true},
	} {
		check.Equal(t, name+": evictable", tc.want, IsEvictable(tc.pod.Obj(), tc.group))
	}
}
