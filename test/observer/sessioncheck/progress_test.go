package sessioncheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/internal/testing/check"
)

func TestWhatFitsAndDoesNotStartIsFound(t *testing.T) {
	const partly = `write queue q quota=H200:16; gang g queue=q pods=2 cards=8; write group small queue=q request=H200:1 phase=Pending;`

	for t, tc := range check.Cases(t, map[string]struct{ text, want string }{
		"a pod":                             {`single a queue=q cards=1`, "pod/test/a"},
		"a pod whose group is not enqueued": {`write group g queue=q phase=Pending; write pod a group=g cards=4 card=H200`, "pod/test/a"},
		"a gang":                            {`gang g queue=q pods=2 cards=2`, "podgroup/test/g"},
		"a PodGroup without pods":           {`write group g queue=q request=H200:4 phase=Pending`, "podgroup/test/g"},
		"the second alternative": {`write node h200-0 model=other; write queue q quota=RTX4090:4
			single a queue=q cards=1 card=H200|RTX4090`, "pod/test/a"},
		"two pods that both fit":    {`single a queue=q cards=2; single b queue=q cards=2`, "pod/test/a pod/test/b"},
		"a pod above the minimum":   {`single a queue=q cards=1; write pod a node=h200-0; write pod b group=group-of-a cards=1 card=H200`, "pod/test/b"},
		"a pod beside another card": {`write queue r quota=RTX4090:1; single b queue=r cards=2 card=RTX4090; single a queue=q cards=4`, "pod/test/a"},
		"after the last victim has gone": {`write queue r quota=H200:8; single victim queue=r cards=8; write pod victim node=h200-0
			single a queue=q cards=4; enough; clean; remove pod victim`, "pod/test/a"},
		"a job beside a gang that fits only partly, after five minutes": {partly + `sessions 300; clean`, "podgroup/test/small"},
		"a job beside a gang that can never fit a lowered quota": {`gang g queue=q pods=4 cards=1 nodeSelector=zone=nowhere
			write group small queue=q request=H200:1 phase=Pending; enough; clean; write queue q quota=H200:2`, "podgroup/test/small"},
	}) {
		s := newScene(t, Options{}).run(tc.text).run(`enough`)
		s.expectViolations(violationsOf(Progress, strings.Fields(tc.want)...)...)
		s.run(`enough; clean`) // each once
	}
}

func TestWhatHasAReasonToWaitIsNoViolation(t *testing.T) {
	crowd := ""
	for i := range 5 {
		crowd += fmt.Sprintf("write pod old-%d group=g cards=1 card=H200 node=h200-0 charged=q deleted=true;", i)
	}

	for t, text := range check.Cases(t, map[string]string{
		"it starts in the third session":    `single a queue=q cards=1; sessions 4; write pod a node=h200-0`,
		"its queue's quota is too small":    `single a queue=q cards=5`,
		"its queue's quota is used":         `single b queue=q cards=4; write pod b node=h200-0; single a queue=q cards=1`,
		"the gang's quota is too small":     `gang g queue=q pods=2 cards=3`,
		"it announces more than the quota":  `write group g queue=q request=H200:5 phase=Pending`,
		"what it announces cannot be read":  `write group g queue=q request=H200:-4 cards=1 phase=Pending`,
		"it was enqueued and has no pods":   `write group g queue=q request=H200:4`,
		"the nodes have another card":       `write node h200-0 model=other; single a queue=q cards=1`,
		"the node is full":                  `write queue r quota=H200:8; single b queue=r cards=6; write pod b node=h200-0; single a queue=q cards=3`,
		"the node has no CPU":               `write node h200-0 cpu=500m; single a queue=q cards=1`,
		"the node has no room for pods":     `write node h200-0 pods=0; single a queue=q cards=1`,
		"the node is cordoned":              `write node h200-0 cordoned=true; single a queue=q cards=1`,
		"the node is not ready":             `write node h200-0 ready=Unknown; single a queue=q cards=1`,
		"the node is tainted":               `write node h200-0 tainted=true; single a queue=q cards=1`,
		"its selector leaves the node out":  `single a queue=q cards=1 nodeSelector=zone=b`,
		"it is gated":                       `single a queue=q cards=1 gated=true`,
		"it has no PodGroup yet":            `write pod a cards=1 card=H200`,
		"its gang lacks pods":               `write group g queue=q min=2; write pod a group=g cards=1 card=H200`,
		"another scheduler places it":       `single a queue=q cards=1 scheduler=other`,
		"its queue is closed":               `write queue q state=Closed; single a queue=q cards=1`,
		"its queue does not exist":          `single a queue=gone cards=1`,
		"its namespace is not selected":     `write queue q namespaceSelector={"matchLabels":{"a":"b"}}; single a queue=q cards=1`,
		"its queue has no CPU left":         `write queue q cpu=500m; single a queue=q cards=1`,
		"another takes the last card":       `single a queue=q cards=3; single b queue=q cards=3`,
		"another queue takes the last node": `write queue r quota=H200:8; single b queue=r cards=8; single a queue=q cards=3`,
		"a gang that fits only partly holds a reservation": `write queue q quota=H200:16; gang g queue=q pods=2 cards=8
			write group small queue=q request=H200:1 phase=Pending; sessions 240`,
		"pods that are being deleted crowd the queue": crowd + `single a queue=q cards=1`,
		"it fits only now and then": `single a queue=q cards=4;` + strings.Repeat(`sessions 3
			write queue q quota=H200:3; write queue q quota=H200:4;`, 10) + `remove pod a`,
	}) {
		newScene(t, Options{}).run(text).run(`enough; clean`)
	}

	for t, play := range check.Cases(t, map[string]func(*checkerScript){
		"a pod on the node keeps others off": func(s *checkerScript) {
			p := s.run(`single b queue=q cards=1`).Pod("b", "node=h200-0")
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
			}}
			s.applyObject(p, false)
			s.run(`single a queue=q cards=1`)
		},
		"no session decides": func(s *checkerScript) {
			s.run(`single a queue=q cards=1`)
			for i := range 20 {
				s.clock = s.clock.Add(time.Second)
				s.addReading(Reading{Closed: i + 5})
			}
			s.closed = 0
			s.run(`remove pod a`)
		},
		"each session is of another process": func(s *checkerScript) {
			s.run(`single a queue=q cards=1`)
			for i := range 20 {
				s.clock = s.clock.Add(time.Second)
				s.addReading(Reading{Process: i, Closed: 50 + i, Decides: true})
			}
			s.run(`remove pod a`)
		},
	}) {
		s := newScene(t, Options{})
		play(s)
		s.run(`enough; clean`)
	}
}

// With cardUnlimitedCpuMemory a queue without CPU does not keep cards out.
func TestCPUDoesNotLimitPodsWithCardsWhereTheyAreExempt(t *testing.T) {
	s := newScene(t, Options{UnlimitedCPUMemory: true}).run(`write queue q cpu= memory=; single a queue=q cards=1; enough`)
	s.expectViolations(Progress + " pod/test/a")
}

func TestWhoIsNotConcernedIsNotReported(t *testing.T) {
	s := newScene(t, Options{Concerns: func(object string) bool { return object != "pod/test/a" }})
	s.run(`single a queue=q cards=1; single b queue=q cards=1; enough`).expectViolations(Progress + " pod/test/b")
}

// An outstanding deadline is open, so that a test waits for it. What no session can change is
// not.
func TestOpenIsWhatSessionsMayStillChange(t *testing.T) {
	s := newScene(t, Options{}).run(`single a queue=q cards=1; sessions 2`)
	check.Equal(t, "open objects", 1, len(s.judge.Check(s.clock)))
	check.Equal(t, "open objects although no session closes", 0, len(s.judge.Check(s.clock.Add(time.Minute))))
}
