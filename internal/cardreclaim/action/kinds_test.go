package action

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/testing/check"
)

// scattered is a cluster of nodes with eight cards, held by as many training gangs
// of eight pods over eight nodes, and a gang of inference that waits: so many pods
// of eight cards, which ask for another share of CPU each kind.
func scattered(nodes, pods, kinds int) *world {
	w := tides("")
	plenty := fmt.Sprintf(`{"A":%d}`, 16*nodes)
	w.add(fmt.Sprintf("queue high %s 90000 inference cpu=1000000; queue low %s 10000 training cpu=1000000", plenty, plenty))
	for _, q := range w.Queues {
		q.Spec.Capability["memory"] = amount("1Pi")
	}
	var text strings.Builder
	for i := range nodes {
		fmt.Fprintf(&text, "node n%05d A 8; t%05d low 8:", i, i)
		for k := range 8 {
			fmt.Fprintf(&text, " n%05d", (i+k*37)%nodes)
		}
		fmt.Fprintf(&text, " ran=%dm\n", 10+(i*7919)%1440)
	}
	w.add(text.String())
	n := 0
	return w.add(fmt.Sprintf("i high %d: -*%d cards=8", pods, pods), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(fmt.Sprintf("%dm", 10+n%kinds))
		n++
	})
}

// TestKindsOnALargeCluster: a gang whose pods are of several kinds gets its cards
// in one session, however large the cluster is.
func TestKindsOnALargeCluster(t *testing.T) {
	w := scattered(1000, 32, 16)
	w.alone = true
	w.run(t)
	check.Equal(t, "pods that are promised a node", 32, len(w.In(api.Pipelined)))
}
