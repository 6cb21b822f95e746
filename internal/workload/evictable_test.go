package workload

import (
	"testing"

	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

const preemptable = "volcano.sh/preemptable"

// TestWhoSaysWhetherAPodMayBeEvicted: a value that is no boolean protects, in each
// annotation.
func TestWhoSaysWhetherAPodMayBeEvicted(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "1": true, "T": true, "TRUE": true, "false": false, "0": false,
		"yes": false, "no": false, "off": false, "": false, "true ": false, "tRUE": false, "2": false,
	} {
		says := map[string]string{preemptable: value}
		check.Equal(t, "annotation "+value, want, IsEvictable(pod().Annotation(preemptable, value).Obj(), nil))
		check.Equal(t, "label "+value, want, IsEvictable(pod().Label(preemptable, value).Obj(), nil))
		check.Equal(t, "PodGroup "+value, want, IsEvictable(pod().Obj(), says))
		check.Equal(t, "PodGroup beside a pod that allows it "+value, want, IsEvictable(pod().Annotation(preemptable, "true").Obj(), says))
		check.Equal(t, "PodGroup beside a pod that forbids it "+value, false, IsEvictable(pod().
			Annotation(preemptable, "false").Obj(), says))
		check.Equal(t, "annotation before a label that allows it "+value, want,
			IsEvictable(pod().Annotation(preemptable, value).Label(preemptable, "true").Obj(), nil))

		check.Equal(t, "annotation that allows it before a label "+value, true,
			IsEvictable(pod().Annotation(preemptable, "true").Label(preemptable, value).Obj(), nil))
	}
}

func TestWhichPodsMayBeEvicted(t *testing.T) {
	allows := map[string]string{preemptable: "true"}

	for name, tc := range map[string]struct {
		pod   *builder.PodBuilder
		group map[string]string
		want  bool
	}{
		"a pod that says nothing": {
			pod:  pod(),
			want: true,
		},
		"a pod without annotations and labels": {
			pod:   builder.Pod("", ""),
			group: map[string]string{},
			want:  true,
		},
		"another spelling says nothing": {
			pod:  pod().Annotation("volcano.sh/Preemptable", "false"),
			want: true,
		},
		"an annotation of the same prefix says nothing": {
			pod:  pod().Annotation("volcano.sh/preemptable-by", "false"),
			want: true,
		},
		"critical for the cluster": {
			pod: pod().PriorityClass("system-cluster-critical"),
		},
		"critical for a node": {
			pod: pod().PriorityClass("system-node-critical"),
		},
		"critical, although it allows it": {
			pod:   pod().PriorityClass("system-node-critical").Annotation(preemptable, "true"),
			group: allows,
		},
		"a class that only sounds critical":               {pod().PriorityClass("system-critical"), nil, true},
		"of the namespace kube-system":                    {podIn("kube-system"), nil, false},
		"of kube-system, although it allows it":           {podIn("kube-system").Annotation(preemptable, "true"), allows, false},
		"of a namespace that only sounds like the system": {podIn("kube-system-2"), nil, true},
		"of another namespace of the system":              {podIn("kube-public"), nil, true},
		"of the highest priority, but not critical":       {pod().PriorityClass("pc-high"), nil, true},
	} {
		check.Equal(t, name+": evictable", tc.want, IsEvictable(tc.pod.Obj(), tc.group))
	}
}
