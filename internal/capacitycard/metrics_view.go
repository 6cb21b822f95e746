package capacitycard

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// view is what one session found when it opened. It never changes, because
// scrapes read it while later sessions write the account.
type view struct {
	at time.Time
	// ready is false while decisions are held back.
	ready  bool
	queues []queueView
	// unowned are the cards of pods whose queue does not exist or is not known.
	unowned map[card.Name]card.Count
	// pods is how many pods are charged, to a queue or to none.
	pods  int
	stock stock
}

// queueView is one queue that exists.
type queueView struct {
	books quota.Books
	// inqueue is what was admitted and waits, pending what waiting pods ask for.
	inqueue, pending []quota.Demand
}

func (q *queueView) id() api.QueueID { return api.QueueID(q.books.Queue) }

// stock is what the nodes offer.
type stock struct {
	inventory *card.Inventory
	physical  map[card.Name]card.Count
	anomalous int
}

// take looks at the nodes, if the cards of any have changed.
func (s *stock) take(p *plugin) {
	if s.inventory == p.inv {
		return
	}
	*s = stock{inventory: p.inv, physical: p.inv.Physical()}
	for _, node := range p.memory.nodes {
		if len(node.cards.Anomalies) > 0 {
			s.anomalous++
		}
	}
}

// view copies what the session knows, as far as it will change.
func (p *plugin) view(stock stock) *view {
	books, pending := p.account.Books(), p.pending()
	v := &view{
		at: p.memory.now(), ready: p.notReady == "" && p.invalid == nil, stock: stock,
		queues: make([]queueView, 0, len(books)), unowned: map[card.Name]card.Count{},
	}
	for _, b := range books {
		v.pods += b.Pods
		queue := queueView{books: b}
		if _, exists := p.rules[queue.id()]; !exists {
			for _, held := range b.Used {
				v.unowned[held.Name] = v.unowned[held.Name].Add(held.Count)
			}
			continue
		}
		queue.inqueue, queue.pending = slices.Clone(p.waiting[queue.id()].Demands), pending[queue.id()]
		v.queues = append(v.queues, queue)
	}
	return v
}

// pending sums what the waiting pods of the session's jobs ask for. Pods that
// are gated do not wait yet, and one that can never be placed as it is written
// asks for no card.
func (p *plugin) pending() map[api.QueueID][]quota.Demand {
	type asked struct {
		queue   api.QueueID
		request string // "" for any card of the resource
		of      corev1.ResourceName
	}
	sums := map[asked]quota.Demand{}
	for _, job := range p.ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			facts := p.memory.objects[task.Pod] // every pod of a job was seen when the books were opened
			if task.SchGated || facts == nil || facts.ask.Count == 0 || len(facts.ask.Names) == 0 {
				continue
			}
			key := asked{job.Queue, facts.ask.Request.String(), facts.ask.Resource}
			sums[key] = quota.Demand{Names: facts.ask.Names, Count: sums[key].Count.Add(facts.ask.Count)}
		}
	}
	all := map[api.QueueID][]quota.Demand{}
	for key, demand := range sums {
		all[key.queue] = append(all[key.queue], demand)
	}
	return all
}
