package capacitycard

import (
	"cmp"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/scheduler/snapshot"
	"cardquota.dev/operator/internal/waiting"
	"cardquota.dev/operator/internal/workload"
)

// skippedWords end Volcano's message about a pod whose role was refused by all nodes before.
const skippedWords = "has already predicated failed, skip"

// shortages states on pending pods what the nodes lack for them.
type shortages struct {
	*snapshot.Session
	events *Events
}

// statePodShortages looks for pods that no node takes. It writes into the fit error of each what the nodes lack,
// and Volcano puts that into the condition of the pod. Volcano's own text counts the nodes by reason, so that a
// misspelt card, cards in use and cards on several nodes look the same. Package waiting judges by the same rules,
// for the status.
//
// The texts have no numbers, so that a busy cluster does not rewrite its pending pods.
func (s *shortages) statePodShortages() {
	// No pod was tried on any node then.
	if s.AwaitsSync || s.ArgumentsErr != nil {
		return
	}

	var fleet *waiting.Fleet
	for _, job := range s.Volcano.Jobs {
		if len(job.NodesFitErrors) == 0 {
			continue
		}
		if fleet == nil {
			fleet = s.newFleet()
		}
		s.stateJobShortages(job, fleet)
	}
}

// stateJobShortages writes into the fit errors of a job's pending pods what the nodes lack. Volcano tries no
// pod of a role (a task of a vcjob) once all nodes have refused one. Such a skipped pod gets a text that
// names the tried one.
func (s *shortages) stateJobShortages(job *api.JobInfo, fleet *waiting.Fleet) {
	var skipped, tried []*api.TaskInfo
	for _, task := range job.TaskStatusIndex[api.Pending] {
		switch fit := job.NodesFitErrors[task.UID]; {
		case fit == nil || fit == s.events.ownFitErrors[task.UID]: // no node was tried, or the plugin said why
		case s.TriedTasks[task.UID]:
			tried = append(tried, task)
		case strings.HasSuffix(fit.Error(), skippedWords):
			skipped = append(skipped, task)
		}
	}

	// Skipped pods get the text of the first tried pod of their role by name, so that it stays the same in every
	// session.
	slices.SortFunc(tried, func(a, b *api.TaskInfo) int { return cmp.Compare(a.Name, b.Name) })
	taken := s.takenByGang(job)
	sameAs := map[string]string{} // what is stated about the skipped pods of a role
	for _, task := range tried {
		text := s.shortageOf(job, task, fleet, taken)
		if text != "" {
			job.NodesFitErrors[task.UID].SetError(text)
		}
		if _, isKnown := sameAs[task.TaskRole]; !isKnown {
			sameAs[task.TaskRole] = waiting.SameAsText(text, task.Name)
		}
	}

	for _, task := range skipped {
		if text, isKnown := sameAs[task.TaskRole]; isKnown {
			job.NodesFitErrors[task.UID].SetError(text)
		}
	}
}

// shortageOf returns as a text what the nodes lack for a pod, "" if one node has enough cards, or if the
// queue has no quota left for them. taken is what pods of the job would take once their gang is complete.
func (s *shortages) shortageOf(job *api.JobInfo, task *api.TaskInfo, fleet *waiting.Fleet, taken takenCards) string {
	request := s.RequestFor(task)
	if request.Count == 0 {
		return ""
	}

	var names []card.Name
	for _, name := range request.Names {
		// Where the quota is full, it keeps the pod waiting, whatever the nodes have.
		if s.Ledger.Fits(string(job.Queue), request.On(name).OnlyCards(), quota.Within{}) {
			names = append(names, name)
		}
	}

	if len(names) == 0 { // no card has quota left, or the request has no card that any node has
		return ""
	}

	return waiting.ShortageText(fleet.Shortage(names, request.Count, taken[labelOf(request)]), labelOf(request))
}

// labelOf returns the cards of a request as the user writes them, or their resource if the user names none.
func labelOf(request *workload.Request) string {
	return cmp.Or(request.Named.String(), string(request.Resource))
}

// takenCards are what pods would take as soon as their gang is complete: by their cards as the user
// writes them, and by node.
type takenCards map[string]map[string]card.Count

// takenByGang returns what pods of a job would take as soon as it is complete.
func (s *shortages) takenByGang(job *api.JobInfo) takenCards {
	taken := takenCards{}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		// Volcano undoes the placements of an incomplete gang, and keeps them here.
		last := task.LastTransaction
		if last == nil || last.Status != api.Allocated {
			continue
		}

		request := s.RequestFor(task)
		label := labelOf(request)
		if taken[label] == nil {
			taken[label] = map[string]card.Count{}
		}
		taken[label][last.NodeName] = taken[label][last.NodeName].Add(request.Count)
	}

	return taken
}

// newFleet returns the nodes with the cards that are free in the session, none on a node that the session lacks.
func (s *shortages) newFleet() *waiting.Fleet {
	used := map[waiting.NodeCard]card.Count{}
	nodes := s.Cache.Nodes.Nodes()
	for i := range nodes {
		node := s.Volcano.Nodes[nodes[i].Name]
		for _, offered := range nodes[i].Cards {
			free := card.Count(0)
			if node != nil {
				free = card.Count(node.Idle.Get(offered.Resource) / snapshot.Milli)
			}
			used[waiting.NodeCard{Node: nodes[i].Name, Name: offered.Name}] = offered.Count.Sub(free)
		}
	}

	return waiting.NewFleet(s.Inventory, nodes, used)
}
