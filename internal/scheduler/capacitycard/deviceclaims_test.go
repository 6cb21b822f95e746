package capacitycard

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"cardquota.dev/operator/internal/testing/check"
)

// claims gives a pod ResourceClaims by name.
func claims(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, name := range names {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: ptr.To(name)})
		}
	}
}

// withDevices adds the objects of two drivers of devices, gpu.nvidia.com for cards and dra.net for networks, and three
// ResourceClaims: gpu and net for a device of one driver, and all for a device of any driver.
func (s *scene) withDevices() *scene {
	s.Begin()
	informers := s.Cache.SharedInformerFactory().Resource().V1()
	for class, driver := range map[string]string{"gpu": "gpu.nvidia.com", "net": "dra.net"} {
		selector := resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "` + driver + `"`}}
		check.NoError(s.t, informers.DeviceClasses().Informer().GetIndexer().Add(&resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{selector}},
		}))
		check.NoError(s.t, informers.ResourceSlices().Informer().GetIndexer().Add(&resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: resourcev1.ResourceSliceSpec{Driver: driver},
		}))
	}

	check.NoError(s.t, informers.DeviceClasses().Informer().GetIndexer().Add(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "all"}}))
	for _, class := range []string{"gpu", "net", "all"} {
		s.addClaim(class, class)
	}

	return s
}

// addClaim adds a claim for one device of a class.
func (s *scene) addClaim(name, class string) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pods[0].Namespace, Name: name}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}}}
	check.NoError(s.t, s.Cache.SharedInformerFactory().Resource().V1().ResourceClaims().Informer().GetIndexer().Add(claim))
}

// TestClaimsForCardsAreJudgedAsUnmanaged: a pod can also get cards through a ResourceClaim, and no quota limits
// these. So the argument unmanagedQueues decides about such a pod, also in a queue with a quota. By default it is
// Enforce. Enforce and Deny refuse the pod, Ignore allows it. A claim for other devices is allowed. A pod is refused
// as well while its claim may be for cards, or does not exist yet.
//
// Each row runs with three pods: without and with a card as a resource in a queue with a quota, and without one in a queue
// without a quota. A placed pod is "a:1", one pod on node a.
func TestClaimsForCardsAreJudgedAsUnmanaged(t *testing.T) {
	const (
		withQuota  = `queue q quota={"A":8}`
		forCards   = "Pod has ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>, which are cards that no quota limits (unmanagedQueues: "
		ofAnything = "Pod has ResourceClaim <all> of DeviceClass <all>, whose selectors do not compare device.driver with a name, " +
			"so it may get cards of driver <gpu.nvidia.com>"
	)

	for t, tc := range check.Cases(t, map[string]struct {
		claim, unmanagedQueues string
		wantPlaced, wantReason string
	}{
		"for a card, without the argument":     {claim: "gpu", wantReason: forCards + "Enforce)"},
		"for a card, unmanagedQueues: Enforce": {claim: "gpu", unmanagedQueues: "Enforce", wantReason: forCards + "Enforce)"},
		"for a card, unmanagedQueues: Deny":    {claim: "gpu", unmanagedQueues: "Deny", wantReason: forCards + "Deny)"},
		"for a card, unmanagedQueues: Ignore":  {claim: "gpu", unmanagedQueues: "Ignore", wantPlaced: "a:1"},
		"for a device of any driver":           {claim: "all", wantReason: ofAnything},
		"for a network":                        {claim: "net", wantPlaced: "a:1"},
		"the claim does not exist yet":         {claim: "nothing", wantReason: "Pod waits for ResourceClaim <nothing>, which does not exist yet"},
	}) {
		for _, queueAndPod := range []string{
			withQuota + "; job j queue=q min=1 pending=1 cards=0",
			withQuota + "; job j queue=q min=1 pending=1 cards=1",
			"queue q cpu=8; job j queue=q min=1 pending=1 cards=0",
		} {
			if tc.unmanagedQueues == "Deny" && !strings.HasPrefix(queueAndPod, withQuota) {
				continue // Deny refuses each pod of a queue without a quota, before the plugin reads its claims
			}

			arguments := framework.Arguments{}
			if tc.unmanagedQueues != "" {
				arguments["unmanagedQueues"] = tc.unmanagedQueues
			}

			s := newScene(t, "node a model=A cards=8; "+queueAndPod, claims(tc.claim)).withArguments(arguments).withDevices().enqueueAndAllocate()
			check.Equal(t, queueAndPod+": placed", tc.wantPlaced, s.podsByNode("j"))
			check.That(t, containsText(s.refusals("j"), tc.wantReason), "%s: reasons %q, want %q", queueAndPod, s.refusals("j"), tc.wantReason)
		}
	}
}

// TestClaimsForCardsEnqueueNoJob: jobs j and k wait to be enqueued, j first. The quota of 2 cards suffices for one of them.
// The pods of j have a claim for a card, so the plugin refuses them. As j cannot run, it is not enqueued, and reserves no
// quota. So job k is enqueued and gets both cards.
func TestClaimsForCardsEnqueueNoJob(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":2}`)
	s.addObjects("job j queue=q min=2 phase=Pending minCards=2 pending=2", claims("gpu"))
	s.addObjects("job k queue=q min=2 phase=Pending minCards=2 pending=2")
	s.withDevices().enqueueAndAllocate()

	j := s.Job("j")
	check.Equal(t, "phase of job j", "Pending", string(j.PodGroup.Status.Phase))
	check.Contains(t, "reason of job j", j.JobFitErrors, "Pod has ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>")
	check.Equal(t, "placed of job k", "a:2", s.podsByNode("k")) // two pods on node a
}

// TestClaimsOfPlacedPodsChangeNothing: the plugin refuses pending pods with a claim for a card. A pod with such a
// claim that already runs, here on node a, keeps running. The card that it requests as a resource stays charged.
func TestClaimsOfPlacedPodsChangeNothing(t *testing.T) {
	s := newScene(t, `node a model=A cards=8; queue q quota={"A":8}; job j queue=q min=1 running=a`, claims("gpu")).withDevices().enqueueAndAllocate()
	check.Equal(t, "pods of the job", "a:1", s.podsByNode("j"))
	check.Equal(t, "used cards", 1, s.usedCards("q", "A"))
}
