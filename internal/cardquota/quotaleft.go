package cardquota

import (
	"cardquota.dev/operator/internal/blocked"
	"cardquota.dev/operator/internal/card"
)

// withQuotaLeft returns the cards of a request for which a queue, and those above it, have quota left.
// Free cards of another name would not help. Without any such card it returns all of them: then the
// scheduler states whose quota is exhausted, or the queue has no CardQuota.
//
// A job without pods may use several names, so any quota left of one counts.
func (c *counter) withQuotaLeft(queue string, request *blocked.Request) []card.Name {
	if len(request.Names) < 2 || c.input.Quotas[queue] == nil {
		return request.Names
	}

	least := request.Count
	if request.IsJob {
		least = 1
	}

	path := append([]string{queue}, c.tree().WrittenAncestors(queue)...)
	var left []card.Name
	for _, name := range request.Names {
		if c.hasQuotaLeft(path, name, least) {
			left = append(left, name)
		}
	}

	if left == nil {
		return request.Names
	}

	return left
}

// hasQuotaLeft reports whether each of some queues has quota left for so many of a card. A queue without
// a CardQuota limits nothing here.
func (c *counter) hasQuotaLeft(queues []string, name card.Name, count card.Count) bool {
	for _, queue := range queues {
		if granted, isKnown := c.input.Quotas[queue]; isKnown && granted[name] < c.usedInSubtree(queue)[name].Add(count) {
			return false
		}
	}
	return true
}

// usedInSubtree returns what a queue and those below it use. It sums once for each queue, after all pods
// were counted.
func (c *counter) usedInSubtree(queue string) map[card.Name]card.Count {
	if known, isKnown := c.subtreeUsage[queue]; isKnown {
		return known
	}

	used := map[card.Name]card.Count{}
	for _, below := range c.queuesBelow(queue) {
		if counted := c.queues[below]; counted != nil {
			addCounts(used, counted.usage.Used)
		}
	}

	if c.subtreeUsage == nil {
		c.subtreeUsage = map[string]map[card.Name]card.Count{}
	}
	c.subtreeUsage[queue] = used

	return used
}
