package validation

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
	"cardquota.dev/operator/internal/workload"
)

func setReplicaSetAsOwner(pod *corev1.Pod) {
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)}}
}

func setOtherTeam(w *WorkloadInput) { w.Namespace.Labels = map[string]string{"team": "search"} }

func newPodGroup(queue string) *v1beta1.PodGroup {
	return builder.PodGroup("chat", "g").Queue(queue).Obj()
}

// TestWorkloadsInQueuesThatTheyMayNotUseAreRefused: a queue may select namespaces and have a service type. The
// webhook refuses a workload that names a queue which does not select its namespace, or whose selector cannot be read.
// It also refuses an invalid service type, and another one than that of the queue. It only warns while the queue or
// the namespace is not known, of a request above the quota, of an undefined service type, and of an annotation without
// an effect. A pod of a ReplicaSet gets only a warning, except for its namespace. Queue training selects namespaces of
// team chat, and has service type training and a quota of 8 NVIDIA-H200. Queue open has no rules, and so has queue
// default, which counts where a workload names none. "Another namespace" (setOtherTeam) means that the namespace of
// the workload has the label of team search. The policy defines only the built-in types, inference and training.
func TestWorkloadsInQueuesThatTheyMayNotUseAreRefused(t *testing.T) {
	const mayNotUse = "Namespace <chat> may not use queue <training>: ask an administrator"
	inQueue := func(queue string) annotationMap { return annotationMap{queueName: queue} }
	byGroup := newPod(inQueue("open"), nil, func(p *corev1.Pod) { p.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "g" })

	for t, tc := range check.Cases(t, map[string]struct {
		object                   runtime.Object
		changeInput              func(*WorkloadInput)
		wantRefusal, wantWarning string
	}{
		"a pod, the queue takes its namespace": {object: newPod(inQueue("training"), nil)},
		"a pod of another namespace: refused": {
			object:      newPod(inQueue("training"), nil),
			changeInput: setOtherTeam,
			wantRefusal: "metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: " + mayNotUse,
		},
		"a pod of a ReplicaSet in another namespace: refused": {
			object:      newPod(inQueue("training"), nil, setReplicaSetAsOwner),
			changeInput: setOtherTeam,
			wantRefusal: mayNotUse,
		},
		"a Deployment in another namespace: refused": {
			object:      newDeployment(inQueue("training"), nil),
			changeInput: setOtherTeam,
			wantRefusal: "spec.template.metadata.annotations[scheduling.volcano.sh/queue-name]: Forbidden: " + mayNotUse,
		},
		"a vcjob in another namespace: refused": {
			object:      newVCJob("training", nil, newTask(1, nil, nil)),
			changeInput: setOtherTeam,
			wantRefusal: "spec.queue: Forbidden: " + mayNotUse,
		},
		"a PodGroup in another namespace: refused": {
			object:      newPodGroup("training"),
			changeInput: setOtherTeam,
			wantRefusal: "spec.queue: Forbidden: " + mayNotUse,
		},
		"another namespace, a pod names queue open, but its PodGroup names training and decides: refused": {
			object: byGroup,
			changeInput: func(w *WorkloadInput) {
				setOtherTeam(w)
				w.PodGroup = func(string) *v1beta1.PodGroup { return newPodGroup("training") }
			},
			wantRefusal: mayNotUse,
		},
		"another namespace, a queue without a selector": {object: newPod(inQueue("open"), nil), changeInput: setOtherTeam},
		"a queue whose selector cannot be read: refused": {
			object:      newPod(inQueue("broken"), nil),
			wantRefusal: "Queue <broken> has an invalid volcano.sh/namespace-selector",
		},
		"the webhook does not know the namespace yet": {
			object:      newPod(inQueue("training"), nil),
			changeInput: func(w *WorkloadInput) { w.Namespace = nil },
			wantWarning: "Namespace <chat> is not known yet",
		},
		"a queue that does not exist": {
			object:      newPod(inQueue("nowhere"), nil),
			wantWarning: "there is no queue nowhere: the pods wait until an administrator creates it",
		},
		"a PodGroup that names no queue": {object: newPodGroup("")},
		"another namespace, a vcjob names no queue but its task does, which is not read": {
			object:      newVCJob("", nil, newTask(1, inQueue("training"), nil)),
			changeInput: setOtherTeam,
		},
		"another namespace, a pod that names no queue": {object: newPod(nil, nil), changeInput: setOtherTeam},
		"a pod of another scheduler in another namespace: its queue does not matter": {
			object:      newPod(inQueue("training"), nil, func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }),
			changeInput: setOtherTeam,
		},
		"a Deployment that names the queue beside its template": {
			object:      newDeployment(inQueue("open"), nil, func(d *appsv1.Deployment) { d.Annotations = inQueue("training") }),
			wantWarning: "metadata.annotations[scheduling.volcano.sh/queue-name]: is not read here, the queue is open: write it in spec.template.metadata.annotations",
		},
		"a vcjob that names the queue in an annotation": {
			object:      newVCJob("", inQueue("training"), newTask(1, nil, nil)),
			wantWarning: "is not read here, the queue is default: write it in spec.queue",
		},
		"a vcjob that requests 16 cards of a quota of 8": {
			object:      newVCJob("training", annotationMap{cardRequest: `{"NVIDIA-H200":16}`}, newTask(4, annotationMap{cardName: "NVIDIA-H200"}, amounts{gpu: "4"})),
			wantWarning: "metadata.annotations[volcano.sh/card.request]: requests 16 NVIDIA-H200 in total, but the quota of queue training is 8",
		},
		"a pod that requests 9 cards of a quota of 8": {
			object:      newPod(annotationMap{queueName: "training", cardName: "NVIDIA-H200"}, amounts{gpu: "9"}),
			wantWarning: "requests 9 NVIDIA-H200, but the quota of queue training is 8",
		},
		"a pod that requests all 8 cards of the quota": {
			object: newPod(annotationMap{queueName: "training", cardName: "NVIDIA-H200"}, amounts{gpu: "8"}),
		},
		"the service type of the queue": {object: newPod(annotationMap{queueName: "training", serviceType: "training"}, nil)},
		"another service type than that of the queue: refused": {
			object:      newPod(annotationMap{queueName: "training", serviceType: "inference"}, nil),
			wantRefusal: "metadata.annotations[volcano.sh/service.type]: Forbidden: requests service type inference, but queue training has training, and the queue decides",
		},
		"a Deployment with another service type: refused": {
			object:      newDeployment(inQueue("training"), nil, func(d *appsv1.Deployment) { d.Annotations = annotationMap{serviceType: "inference"} }),
			wantRefusal: "metadata.annotations[volcano.sh/service.type]: Forbidden: requests service type inference",
		},
		"a vcjob with another service type: refused": {
			object:      newVCJob("training", annotationMap{serviceType: "inference"}, newTask(1, nil, nil)),
			wantRefusal: "requests service type inference",
		},
		"a pod of a ReplicaSet with another service type": {
			object:      newPod(annotationMap{queueName: "training", serviceType: "inference"}, nil, setReplicaSetAsOwner),
			wantWarning: "requests service type inference",
		},
		"a service type in a queue that has none": {object: newPod(annotationMap{queueName: "open", serviceType: "inference"}, nil)},
		"a service type that is not defined": {
			object:      newPod(annotationMap{queueName: "open", serviceType: "batch"}, nil),
			wantWarning: "service type batch is not defined",
		},
		"a service type that is not a name: refused": {
			object:      newPod(annotationMap{queueName: "open", serviceType: "Batch!"}, nil),
			wantRefusal: `service type "Batch!" is no name`,
		},
	}) {
		checkNewWorkload(t, tc.object, newInput(tc.changeInput), tc.wantRefusal, tc.wantWarning)
	}
}

// TestTemplatesThatBypassTheSchedulerAreRefused: pods with cards that another scheduler places, or that name their node,
// would not count against a quota. An admission policy of the API server refuses the pods; this webhook refuses
// templates, so that the user reads it at once. The policy can lower that to a warning. It can exempt ServiceAccounts,
// which create a workload or which its pods run as. Without a policy, any scheduler is allowed, as with Allow.
func TestTemplatesThatBypassTheSchedulerAreRefused(t *testing.T) {
	oneCard := amounts{gpu: "1"}
	withOtherScheduler := func(d *appsv1.Deployment) { d.Spec.Template.Spec.SchedulerName = "default-scheduler" }
	withNodeName := func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeName = "a" }
	admission := func(spec v1alpha1.Admission) func(*WorkloadInput) {
		return func(w *WorkloadInput) { w.Policy.Spec.Admission = spec }
	}

	exempt := admission(v1alpha1.Admission{ExemptServiceAccounts: []v1alpha1.ServiceAccountReference{{Namespace: "chat", Name: "validator"}}})
	// runsAs lets pods of another scheduler run as ServiceAccount validator of a namespace.
	runsAs := func(namespace string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			withOtherScheduler(d)
			d.Namespace = namespace
			d.Spec.Template.Spec.ServiceAccountName = "validator"
		}
	}

	const wrong = "spec.template.spec.schedulerName: …its pods request 1 nvidia.com/gpu each and name schedulerName default-scheduler…write spec.template.spec.schedulerName: volcano"
	for t, tc := range check.Cases(t, map[string]struct {
		object                   runtime.Object
		changeInput              func(*WorkloadInput)
		wantRefusal, wantWarning string
	}{
		"a template with another scheduler: refused": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			wantRefusal: wrong,
		},
		"a template without cards and with another scheduler": {object: newDeployment(nil, nil, withOtherScheduler)},
		"a template that names its node: refused": {
			object:      newDeployment(nil, oneCard, withNodeName),
			wantRefusal: "set spec.nodeName a",
		},
		"a template with the scheduler's second name": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			changeInput: func(w *WorkloadInput) { w.Policy.Spec.Scheduler.Names = []string{"volcano", "default-scheduler"} },
		},
		"a vcjob that names no scheduler: gets volcano, the default": {object: newVCJob("open", nil, newTask(1, nil, oneCard))},
		"another scheduler, schedulerBypassPolicy Warn": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			changeInput: admission(v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassWarn}),
			wantWarning: wrong,
		},
		"another scheduler, schedulerBypassPolicy Allow": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			changeInput: admission(v1alpha1.Admission{SchedulerBypassPolicy: v1alpha1.SchedulerBypassAllow}),
		},
		"another scheduler, no ServiceTypePolicy": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			changeInput: func(w *WorkloadInput) { w.Policy = nil },
		},
		"the pods run as an exempt ServiceAccount": {object: newDeployment(nil, oneCard, runsAs("chat")), changeInput: exempt},
		"the pods run as a ServiceAccount of the same name in another namespace: refused": {
			object:      newDeployment(nil, oneCard, runsAs("search")),
			changeInput: exempt,
			wantRefusal: "schedulerName default-scheduler",
		},
		"an exempt ServiceAccount creates the Deployment": {
			object:      newDeployment(nil, oneCard, withOtherScheduler),
			changeInput: func(w *WorkloadInput) { exempt(w); w.User = "system:serviceaccount:chat:validator" },
		},
	}) {
		checkNewWorkload(t, tc.object, newInput(tc.changeInput), tc.wantRefusal, tc.wantWarning)
	}
}

// TestWorkloadsOfANamespaceThatIsNoLongerSelected: an administrator has changed the label of the namespace, so queue
// training does not select it any more. A Deployment that is in the queue may still be changed, with a warning. One that
// comes from another queue is refused.
func TestWorkloadsOfANamespaceThatIsNoLongerSelected(t *testing.T) {
	inTraining := workloadFor(t, newDeployment(annotationMap{queueName: "training"}, nil))
	inOpen := workloadFor(t, newDeployment(annotationMap{queueName: "open"}, nil))

	checkAnswer(t, validateNow(t, inTraining, &inTraining, newInput(setOtherTeam)), "", "as before: …Namespace <chat> may not use queue <training>")
	checkOnlyText(t, "refusals", texts(validateNow(t, inTraining, &inOpen, newInput(setOtherTeam)).Errors), "Namespace <chat> may not use queue <training>")
}

// TestARefusalDisclosesNothingOfAnotherTenantsQueue: with a dry run any user can ask the webhook about any queue. Queue
// theirs does not select the user's namespace. The answer is one text. It has nothing of the queue's quota of 12,
// service type, selector, parent, stop policy or hold message. Each object requests 1000 cards and another service
// type, so that the webhook has a reason to name the queue's. Kinds of objects and states of the webhook vary.
func TestARefusalDisclosesNothingOfAnotherTenantsQueue(t *testing.T) {
	const secretSelector = `{"matchLabels":{"team":"secret-team"}}`
	queue := func(selector string) *v1beta1.Queue {
		return builder.Queue("theirs").ServiceType("secret-type").Quota(`{"NVIDIA-H200":12}`).
			Annotation(v1alpha1.AnnotationNamespaceSelector, selector).Annotation(stopPolicy, "Hold").Annotation(v1alpha1.AnnotationHoldMessage, "secret message").
			Parent("secret-parent").Obj()
	}
	probe := annotationMap{queueName: "theirs", cardName: "NVIDIA-H200", serviceType: "training"}

	group := newPodGroup("theirs")
	group.Annotations = annotationMap{cardRequest: `{"NVIDIA-H200":1000}`, serviceType: "training"}
	for t, object := range check.Cases(t, map[string]runtime.Object{
		"a pod":        newPod(probe, amounts{gpu: "1000"}),
		"a Deployment": newDeployment(probe, amounts{gpu: "1000"}),
		"a job":        newVCJob("theirs", annotationMap{cardRequest: `{"NVIDIA-H200":1000}`, serviceType: "training"}, newTask(1, annotationMap{cardName: "NVIDIA-H200"}, amounts{gpu: "1000"})),
		"a PodGroup":   group,
	}) {
		for t, change := range check.Cases(t, map[string]func(*WorkloadInput){
			"the queue is flat": nil,
			"the queue is a parent in a tree": func(w *WorkloadInput) {
				w.Tree = func(theirs *v1beta1.Queue) *quota.Tree {
					return workload.TreeOf([]*v1beta1.Queue{theirs, builder.Queue("child").Parent("theirs").Obj()}, v1alpha1.UnmanagedEnforce)
				}
			},
			"no ServiceTypePolicy, so only a warning":  func(w *WorkloadInput) { w.Policy = nil },
			"the namespace is not known yet":           func(w *WorkloadInput) { w.Namespace = nil },
			"the selector of the queue cannot be read": func(w *WorkloadInput) { w.Queue = func(string) *v1beta1.Queue { return queue(`{"secret":{}}`) } },
		}) {
			input := newInput(func(w *WorkloadInput) {
				w.Queue = func(name string) *v1beta1.Queue {
					if name == "theirs" {
						return queue(secretSelector)
					}
					return nil
				}
				if change != nil {
					change(w)
				}
			})

			load := workloadFor(t, object)
			for _, before := range []*Workload{nil, &load} { // a new object, and one that does not change
				result := validateNow(t, load, before, input)
				answer := append(texts(result.Errors), result.Warnings...)
				check.Must(t, len(answer) == 1, "the answer has %d parts: %q", len(answer), answer)
				for _, secret := range []string{"secret", "12", "Hold", "parent"} {
					check.That(t, !strings.Contains(answer[0], secret), "the answer has %q: %s", secret, answer[0])
				}
			}
		}
	}
}
