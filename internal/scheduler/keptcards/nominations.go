package keptcards

import (
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/scheduler/snapshot"
)

// SaveNominations stores the nodes to which pods are pipelined when the session closes, and keeps older
// nominations while evicted pods leave the node. The API server may be too slow to show either by the
// next session. A nomination preempts if pods were evicted for its pod.
func (k *Kept) SaveNominations() {
	nominations := map[types.UID]Nomination{}
	for uid, nomination := range k.freed.Nominations {
		if k.HasEvictedPods(nomination.Node) {
			nominations[uid] = nomination
		}
	}

	for _, job := range k.Volcano.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if nominations[task.Pod.UID].Node != task.NodeName { // for the same node, the older one stays
				preempts := k.Preemptors[task.Pod.UID] || k.freed.Nominations[task.Pod.UID].preempts
				nominations[task.Pod.UID] = Nomination{Node: task.NodeName, Since: k.Now(), preempts: preempts}
			}
		}

		for _, task := range job.TaskStatusIndex[api.Pending] { // nominated by a previous process
			node := task.Pod.Status.NominatedNodeName
			if _, known := nominations[task.Pod.UID]; !known && node != "" && k.HasEvictedPods(node) {
				nominations[task.Pod.UID] = Nomination{Node: node, Since: k.Now()}
			}
		}
	}

	k.freed.Nominations = nominations
}

// NominationFor returns the node that a pod waits for, as sessions know it, else as the API server does. Its Node is
// "" if there is none.
func (k *Kept) NominationFor(task *api.TaskInfo) Nomination {
	if nomination, known := k.freed.Nominations[task.Pod.UID]; known {
		return nomination
	}
	return Nomination{Node: task.Pod.Status.NominatedNodeName, Since: k.Now()}
}

// IsNominated reports whether a node is nominated for a pod, or cards are kept for it there. So
// a search for it may have another result than for an equal pod.
func (k *Kept) IsNominated(task *api.TaskInfo) bool {
	_, isKept := k.freed.Preempted[task.Pod.UID]
	_, isNominated := k.freed.Nominations[task.Pod.UID]
	return isKept || isNominated || task.Pod.Status.NominatedNodeName != ""
}

// NominatedAmong returns the nominated node of a pod, nil if it is not among the scored nodes.
// The pods of a gang are nominated together. If one went elsewhere, it could take the place of
// another. Volcano itself uses a nomination only when the API server shows it, and only after
// evictions.
func (k *Kept) NominatedAmong(task *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
	nomination, known := k.freed.Nominations[task.Pod.UID]
	if !known {
		nomination, known = k.keptNodeFor(task)
	}
	if !known {
		return nil
	}

	for _, nodes := range scored {
		for _, node := range nodes {
			if node.Name == nomination.Node {
				return node
			}
		}
	}

	return nil
}

// keptNodeFor returns the node on which freed cards are kept for a pod. They are still kept when its nomination has
// ended, because the pod was placed once and its gang was not.
func (k *Kept) keptNodeFor(task *api.TaskInfo) (nomination Nomination, known bool) {
	nomination, known = k.freed.Preempted[task.Pod.UID]
	if !known {
		nomination, known = k.freed.Reclaimed[task.Pod.UID]
	}
	return nomination, known
}

// HasEvictedPods reports whether some pod of a node is being evicted.
func (k *Kept) HasEvictedPods(name string) bool {
	return snapshot.AnyTaskOn(k.Volcano.Nodes[name], k.IsBeingEvicted)
}
