package validation

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

func controlled(pod *corev1.Pod) {
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: &yes}}
}

func elsewhere(w *WorkloadInput) { w.Namespace.Labels = map[string]string{"team": "search"} }

func groupOf(queue string) *v1beta1.PodGroup { return builder.PodGroup("chat", "g").Queue(queue).Obj() }

// TestQueueAccess: one line per rule.
func TestQueueAccess(t *testing.T) {
	const leftOut = "Namespace <chat> may not use queue <training>: ask an administrator"
	in := func(queue string) notes { return notes{inQueue: queue} }
	byGroup := requested(in("open"), nil, func(p *corev1.Pod) { p.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "g" })

	for t, tc := range check.Cases(t, map[string]struct {
		object           runtime.Object
		scene            func(*WorkloadInput)
		refusal, warning string
	}{
		"one of its namespaces":          {requested(in("training"), nil, nil), nil, "", ""},
		"another namespace":              {requested(in("training"), nil, nil), elsewhere, "metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: " + leftOut, ""},
		"what another object made there": {requested(in("training"), nil, controlled), elsewhere, leftOut, ""},
		"a template there":               {deployment(in("training"), nil, nil), elsewhere, "spec.template.metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: " + leftOut, ""},
		"a job there":                    {vcjobOf("training", nil, task(1, nil, nil)), elsewhere, "spec.queue: Forbidden: " + leftOut, ""},
		"a PodGroup there":               {groupOf("training"), elsewhere, "spec.queue: Forbidden: " + leftOut, ""},
		"a pod of a PodGroup there": {byGroup, func(w *WorkloadInput) {
			elsewhere(w)
			w.PodGroup = func(string) *v1beta1.PodGroup { return groupOf("training") }
		}, leftOut, ""},
		"a queue for all namespaces":             {requested(in("open"), nil, nil), elsewhere, "", ""},
		"a selector that cannot be read":         {requested(in("broken"), nil, nil), nil, "Queue <broken> has an invalid volcano.sh/namespace-selector", ""},
		"a namespace that is not known":          {requested(in("training"), nil, nil), func(w *WorkloadInput) { w.Namespace = nil }, "", "Namespace <chat> is not known yet"},
		"a queue that is not known":              {requested(in("nowhere"), nil, nil), nil, "", "there is no queue nowhere: the pods wait until an administrator creates it"},
		"a PodGroup without a queue":             {groupOf(""), nil, "", ""},
		"a job that names none, a pod that does": {vcjobOf("", nil, task(1, in("training"), nil)), elsewhere, "", ""},
		"no queue at all":                        {requested(nil, nil, nil), elsewhere, "", ""},
		"another scheduler's pod":                {requested(in("training"), nil, func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), elsewhere, "", ""},
		"a queue on the wrong object":            {deployment(in("open"), nil, func(d *appsv1.Deployment) { d.Annotations = in("training") }), nil, "", "metadata.annotations[scheduling.volcano.sh/queue-name]: is not read here, the queue is open: write it in spec.template.metadata.annotations"},
		"a queue on the wrong part of a job":     {vcjobOf("", in("training"), task(1, nil, nil)), nil, "", "is not read here, the queue is default: write it in spec.queue"},
		"a total that the queue may never hold": {vcjobOf("training", notes{request: `{"NVIDIA-H200":16}`}, task(4, notes{name: "NVIDIA-H200"}, amounts{gpu: "4"})), nil, "",
			"metadata.annotations[volcano.sh/card.request]: requests 16 NVIDIA-H200 in total, but the quota of queue training is 8"},
		"more cards than the queue may ever hold":  {requested(notes{inQueue: "training", name: "NVIDIA-H200"}, amounts{gpu: "9"}, nil), nil, "", "requests 9 NVIDIA-H200, but the quota of queue training is 8"},
		"as many cards as the queue may ever hold": {requested(notes{inQueue: "training", name: "NVIDIA-H200"}, amounts{gpu: "8"}, nil), nil, "", ""},
		"the type that the queue grants":           {requested(notes{inQueue: "training", ofType: "training"}, nil, nil), nil, "", ""},
		"a type that it does not grant":            {requested(notes{inQueue: "training", ofType: "inference"}, nil, nil), nil, "metadata.annotations[volcano.sh/service.type]: Forbidden: requests service type inference, but queue training has training, and the queue decides", ""},
		"claimed for the whole Deployment":         {deployment(in("training"), nil, func(d *appsv1.Deployment) { d.Annotations = notes{ofType: "inference"} }), nil, "metadata.annotations[volcano.sh/service.type]: Forbidden: requests service type inference", ""},
		"claimed for a job":                        {vcjobOf("training", notes{ofType: "inference"}, task(1, nil, nil)), nil, "requests service type inference", ""},
		"claimed by what another object made":      {requested(notes{inQueue: "training", ofType: "inference"}, nil, controlled), nil, "", "requests service type inference"},
		"where the queue grants none":              {requested(notes{inQueue: "open", ofType: "inference"}, nil, nil), nil, "", ""},
		"an undefined type":                        {requested(notes{inQueue: "open", ofType: "batch"}, nil, nil), nil, "", "service type batch is not defined"},
		"a type that is no name":                   {requested(notes{inQueue: "open", ofType: "Batch!"}, nil, nil), nil, `service type "Batch!" is no name`, ""},
	}) {
		load, _ := WorkloadOf(tc.object)
		answers(t, judged(t, load, nil, snapshotOf(tc.scene)), tc.refusal, tc.warning)
	}
}

// TestTemplatesThatBypassTheScheduler: templates, since the API server itself looks at
// pods.
func TestTemplatesThatBypassTheScheduler(t *testing.T) {
	one := amounts{gpu: "1"}
	stock := func(d *appsv1.Deployment) { d.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	preset := func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeName = "a" }
	admission := func(spec v1alpha1.Admission) func(*WorkloadInput) {
		return func(w *WorkloadInput) { w.Policy.Spec.Admission = spec }
	}

	exempt := admission(v1alpha1.Admission{ExemptServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "chat", Name: "validator"}}})
	runsAs := func(namespace string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			stock(d)
			d.Namespace = namespace
			d.Spec.Template.Spec.ServiceAccountName = "validator"
		}
	}

	const wrong = "spec.template.spec.schedulerName: …its pods request 1 nvidia.com/gpu each and name schedulerName default-scheduler…write spec.template.spec.schedulerName: volcano"
	for t, tc := range check.Cases(t, map[string]struct {
		object           runtime.Object
		scene            func(*WorkloadInput)
		refusal, warning string
	}{
		"another scheduler":               {deployment(nil, one, stock), nil, wrong, ""},
		"another scheduler without cards": {deployment(nil, nil, stock), nil, "", ""},
		"a node of its own":               {deployment(nil, one, preset), nil, "set spec.nodeName a", ""},
		"our scheduler's second name":     {deployment(nil, one, stock), func(w *WorkloadInput) { w.Policy.Spec.Scheduler.Names = []string{"volcano", "default-scheduler"} }, "", ""},
		"a job that names no scheduler":   {vcjobOf("open", nil, task(1, nil, one)), nil, "", ""},
		"warned only":                     {deployment(nil, one, stock), admission(v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassWarn}), "", wrong},
		"switched off":                    {deployment(nil, one, stock), admission(v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassAllow}), "", ""},
		"without a policy":                {deployment(nil, one, stock), func(w *WorkloadInput) { w.Policy = nil }, "", ""},
		"runs as an exempt account":       {deployment(nil, one, runsAs("chat")), exempt, "", ""},
		"runs as one of the same name":    {deployment(nil, one, runsAs("search")), exempt, "schedulerName default-scheduler", ""},
		"written by an exempt account":    {deployment(nil, one, stock), func(w *WorkloadInput) { exempt(w); w.User = "system:serviceaccount:chat:validator" }, "", ""},
	}) {
		load, _ := WorkloadOf(tc.object)
		answers(t, judged(t, load, nil, snapshotOf(tc.scene)), tc.refusal, tc.warning)
	}
}

// TestANamespaceThatIsNoLongerAllowed: what is there may be changed, what comes may
// not come.
func TestANamespaceThatIsNoLongerAllowed(t *testing.T) {
	there, _ := WorkloadOf(deployment(notes{inQueue: "training"}, nil, nil))
	answers(t, judged(t, there, &there, snapshotOf(elsewhere)), "", "as before: …Namespace <chat> may not use queue <training>")
	from, _ := WorkloadOf(deployment(notes{inQueue: "open"}, nil, nil))
	answer := judged(t, there, &from, snapshotOf(elsewhere))
	says(t, "refusals", texts(answer.Errors), "Namespace <chat> may not use queue <training>")
}

// TestARefusalDisclosesNothingOfAnotherTenantsQueue: what a dry run for a queue of another tenant
// answers is the refusal, without quota, service type, selector, place in the tree or hold message.
func TestARefusalDisclosesNothingOfAnotherTenantsQueue(t *testing.T) {
	const secrets = `{"matchLabels":{"team":"secret-team"}}`
	queue := func(selector string) *v1beta1.Queue {
		return builder.Queue("theirs").ServiceType("secret-type").Quota(`{"NVIDIA-H200":12}`).
			Annotation(v1alpha1.AnnotationNamespaceSelector, selector).Annotation(stopPolicy, "Hold").Annotation(v1alpha1.AnnotationHoldMessage, "secret message").
			Parent("secret-parent").Obj()
	}
	probe := notes{inQueue: "theirs", name: "NVIDIA-H200", ofType: "training"}

	group := groupOf("theirs")
	group.Annotations = notes{request: `{"NVIDIA-H200":1000}`, ofType: "training"}
	for t, object := range check.Cases(t, map[string]runtime.Object{
		"a pod":        requested(probe, amounts{gpu: "1000"}, nil),
		"a Deployment": deployment(probe, amounts{gpu: "1000"}, nil),
		"a job":        vcjobOf("theirs", notes{request: `{"NVIDIA-H200":1000}`, ofType: "training"}, task(1, notes{name: "NVIDIA-H200"}, amounts{gpu: "1000"})),
		"a PodGroup":   group,
	}) {
		for t, change := range check.Cases(t, map[string]func(*WorkloadInput){
			"flat":              nil,
			"in a tree":         func(w *WorkloadInput) { w.HasChildren = func(name string) bool { return name == "theirs" } },
			"warned only":       func(w *WorkloadInput) { w.Policy = nil },
			"unknown namespace": func(w *WorkloadInput) { w.Namespace = nil },
			"unread selector":   func(w *WorkloadInput) { w.Queue = func(string) *v1beta1.Queue { return queue(`{"secret":{}}`) } },
		}) {
			scene := snapshotOf(func(w *WorkloadInput) {
				w.Queue = func(name string) *v1beta1.Queue {
					if name == "theirs" {
						return queue(secrets)
					}
					return nil
				}
				if change != nil {
					change(w)
				}
			})

			load, _ := WorkloadOf(object)
			for _, before := range []*Workload{nil, &load} {
				result := judged(t, load, before, scene)
				said := append(texts(result.Errors), result.Warnings...)
				check.Must(t, len(said) == 1, "the answer has %d parts: %q", len(said), said)
				for _, secret := range []string{"secret", "12", "Hold", "parent"} {
					check.That(t, !strings.Contains(said[0], secret), "the answer has %q: %s", secret, said[0])
				}
			}
		}
	}
}
