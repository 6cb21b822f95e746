package decision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// label sets a label of a pod.
func label(key, value string) podOption {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
	}
}

func class(name string) podOption { return func(p *corev1.Pod) { p.Spec.PriorityClassName = name } }

func namespace(name string) podOption { return func(p *corev1.Pod) { p.Namespace = name } }

func TestWhichPodsMayBeEvicted(t *testing.T) {
	const preemptable = "volcano.sh/preemptable"
	says := func(value string) map[string]string { return map[string]string{preemptable: value} }
	tests := map[string]struct {
		pod   *corev1.Pod
		group map[string]string
		want  bool
	}{
		"a pod that says nothing":                          {pod(), nil, true},
		"a pod without annotations and labels":             {&corev1.Pod{}, map[string]string{}, true},
		"a pod that allows it":                             {pod(note(preemptable, "true")), nil, true},
		"a pod that forbids it":                            {pod(note(preemptable, "false")), nil, false},
		"yes is no boolean, so it protects":                {pod(note(preemptable, "yes")), nil, false},
		"an empty value protects":                          {pod(note(preemptable, "")), nil, false},
		"a value with a space protects":                    {pod(note(preemptable, "true ")), nil, false},
		"1 is true":                                        {pod(note(preemptable, "1")), nil, true},
		"T is true":                                        {pod(note(preemptable, "T")), nil, true},
		"TRUE is true":                                     {pod(note(preemptable, "TRUE")), nil, true},
		"tRUE is no boolean":                               {pod(note(preemptable, "tRUE")), nil, false},
		"0 is false":                                       {pod(note(preemptable, "0")), nil, false},
		"2 is no boolean":                                  {pod(note(preemptable, "2")), nil, false},
		"a label forbids it as well":                       {pod(label(preemptable, "false")), nil, false},
		"a label that allows it":                           {pod(label(preemptable, "true")), nil, true},
		"a label that is no boolean protects":              {pod(label(preemptable, "no")), nil, false},
		"the annotation goes before the label, allowing":   {pod(note(preemptable, "true"), label(preemptable, "false")), nil, true},
		"the annotation goes before the label, forbidding": {pod(note(preemptable, "false"), label(preemptable, "true")), nil, false},
		"an annotation that is no boolean, the label is":   {pod(note(preemptable, "maybe"), label(preemptable, "true")), nil, false},
		"another spelling says nothing":                    {pod(note("volcano.sh/Preemptable", "false")), nil, true},
		"an annotation of the same prefix says nothing":    {pod(note("volcano.sh/preemptable-by", "false")), nil, true},

		"a PodGroup that allows it":                      {pod(), says("true"), true},
		"a PodGroup that forbids it":                     {pod(), says("false"), false},
		"a PodGroup whose word is no boolean":            {pod(), says("off"), false},
		"a PodGroup with an empty word":                  {pod(), says(""), false},
		"the pod cannot allow what its PodGroup forbids": {pod(note(preemptable, "true")), says("false"), false},
		"the PodGroup cannot allow what its pod forbids": {pod(note(preemptable, "false")), says("true"), false},
		"both allow it":                                  {pod(note(preemptable, "true")), says("true"), true},

		"critical for the cluster":                        {pod(class("system-cluster-critical")), nil, false},
		"critical for a node":                             {pod(class("system-node-critical")), nil, false},
		"critical, although it allows it":                 {pod(class("system-node-critical"), note(preemptable, "true")), says("true"), false},
		"a class that only sounds critical":               {pod(class("system-critical")), nil, true},
		"of the namespace kube-system":                    {pod(namespace("kube-system")), nil, false},
		"of kube-system, although it allows it":           {pod(namespace("kube-system"), note(preemptable, "true")), says("true"), false},
		"of a namespace that only sounds like the system": {pod(namespace("kube-system-2")), nil, true},
		"of another namespace of the system":              {pod(namespace("kube-public")), nil, true},
		"of the highest priority, but not critical":       {pod(class("pc-high")), nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Evictable(tc.pod, tc.group); got != tc.want {
				t.Errorf("evictable %v, want %v", got, tc.want)
			}
		})
	}
}
