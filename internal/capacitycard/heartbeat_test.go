package capacitycard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/uthelper"
)

// heard has the reports of closed sessions collected until the test ends.
func heard(t *testing.T) *[]SessionReport {
	t.Helper()
	var reports []SessionReport
	SetHeartbeat(func(r SessionReport) { reports = append(reports, r) })
	t.Cleanup(func() { SetHeartbeat(nil) })
	return &reports
}

func TestAClosedSessionReports(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		args    framework.Arguments
		prepare func(*plugin)
		want    SessionReport
	}{
		"what it ran with": {framework.Arguments{"configHash": "abc"}, nil, SessionReport{ConfigHash: "abc", At: noon}},
		"while it withholds everything": {framework.Arguments{"configHash": "abc"},
			func(p *plugin) { p.notReady = "not all was seen" }, SessionReport{ConfigHash: "abc", At: noon}},
		"no hash whose arguments it could not read": {framework.Arguments{"configHash": "abc", "overCommitFactor": 0}, nil,
			SessionReport{Problem: "argument overCommitFactor is 0: write a number from 1 to 100", At: noon}},
		"pods that somebody else bound": {framework.Arguments{"configHash": "abc"},
			func(p *plugin) { p.memory.second.foreign["u"] = "ns/p" }, SessionReport{ConfigHash: "abc", SecondScheduler: []string{"ns/p"}, At: noon}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			reports := heard(t)
			ssn := run(t, &uthelper.TestCommonStruct{Queues: []*v1beta1.Queue{quotaQueue("q", "{}")}}, tc.args)
			if len(*reports) != 0 {
				t.Fatal("a session reports before it is closed")
			}
			if tc.prepare != nil {
				tc.prepare(opened)
			}
			process.now = func() time.Time { return noon }
			opened.OnSessionClose(ssn)
			if diff := cmp.Diff([]SessionReport{tc.want}, *reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlacementsOfASessionAreRemembered: what the session keeps is known as this
// process's own when the pod shows its node; what it undoes is not.
func TestPlacementsOfASessionAreRemembered(t *testing.T) {
	ssn := run(t, &uthelper.TestCommonStruct{
		Queues:    []*v1beta1.Queue{quotaQueue("q", `{"NVIDIA-H200":2}`)},
		PodGroups: []*v1beta1.PodGroup{group("j", "q", 1, "Inqueue", "1"), group("gang", "q", 3, "Inqueue", "3")},
		Nodes:     []*corev1.Node{cardNode("h200", "NVIDIA-H200")},
		Pods:      concat(pods(1, "j", "1", "NVIDIA-H200", ""), pods(3, "gang", "1", "NVIDIA-H200", "")),
	}, nil)
	if got := placed(ssn, "j"); got["h200"] != 1 {
		t.Fatalf("placed %v", got)
	}
	opened.OnSessionClose(ssn)
	got := map[types.UID][]string{}
	for pod, sent := range process.second.sent {
		got[pod] = sent.nodes
	}
	if diff := cmp.Diff(map[types.UID][]string{"j-0": {"h200"}}, got); diff != "" {
		t.Errorf("sent to be bound (-want +got):\n%s", diff)
	}
}
