package capacitycard

import (
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

// withDevices adds a driver of cards, one of a network, and a claim of each namespace of the scene's pods.
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

// TestClaimsForCardsAreJudgedAsUnmanaged: no quota limits their cards, so unmanagedQueues decides, in a
// queue with a quota as well.
func TestClaimsForCardsAreJudgedAsUnmanaged(t *testing.T) {
	const cards = "Pod has ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>, which are cards that no quota limits (unmanagedQueues: "
	for t, tc := range check.Cases(t, map[string]struct {
		claim, unmanaged string
		want, why        string
	}{
		"refused by default": {"gpu", "", "", cards + "Enforce)"},
		"enforced":           {"gpu", "Enforce", "", cards + "Enforce)"},
		"denied":             {"gpu", "Deny", "", cards + "Deny)"},
		"ignored":            {"gpu", "Ignore", "a:1", ""},
		"of any driver":      {"all", "", "", "Pod has ResourceClaim <all> of DeviceClass <all>, whose selectors do not compare device.driver with a name, so it may get cards of driver <gpu.nvidia.com>"},
		"of a network":       {"net", "", "a:1", ""},
		"not there yet":      {"nothing", "", "", "Pod waits for ResourceClaim <nothing>, which does not exist yet"},
	}) {
		for _, queue := range []string{`queue q quota={"A":8}`, "queue q cpu=8"} {
			for _, count := range []string{"cards=0", "cards=1"} {
				isUnmanaged := queue != `queue q quota={"A":8}`
				if isUnmanaged && (count == "cards=1" || tc.unmanaged == "Deny") {
					continue // refused for another reason
				}

				arguments := framework.Arguments{}
				if tc.unmanaged != "" {
					arguments["unmanagedQueues"] = tc.unmanaged
				}

				s := newScene(t, "node a model=A; "+queue+"; job j queue=q min=1 pending=1 "+count, claims(tc.claim)).withArguments(arguments).withDevices().enqueueAndAllocate()
				check.Equal(t, queue+" "+count+": placed", tc.want, s.podsByNode("j"))
				check.That(t, containsText(s.refusals("j"), tc.why), "%s %s: reasons %q, want %q", queue, count, s.refusals("j"), tc.why)
			}
		}
	}
}

// TestClaimsForCardsEnqueueNoJob: a job that waits for such a pod reserves no quota for its others.
func TestClaimsForCardsEnqueueNoJob(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":1}`)
	s.addObjects("job j queue=q min=2 phase=Pending minCards=2 pending=2", claims("gpu")).addObjects("job k queue=q min=1 pending=1")
	s.withDevices().enqueueAndAllocate()
	j := s.Job("j")
	check.Equal(t, "phase", "Pending", string(j.PodGroup.Status.Phase))
	check.Contains(t, "reason", j.JobFitErrors, "Pod has ResourceClaim <gpu> for devices of driver <gpu.nvidia.com>")
	check.Equal(t, "the next job", "a:1", s.podsByNode("k"))
}

// TestClaimsOfPlacedPodsChangeNothing: what runs keeps running, and keeps its charge.
func TestClaimsOfPlacedPodsChangeNothing(t *testing.T) {
	s := newScene(t, `node a model=A; queue q quota={"A":8}; job j queue=q min=1 running=a`, claims("gpu")).withDevices().enqueueAndAllocate()
	check.Equal(t, "pods of the job", "a:1", s.podsByNode("j"))
	check.Equal(t, "used", 1, int(s.p.ledger.Used("q", "A")))
}
