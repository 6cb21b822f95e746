package observer

import (
	"slices"
	"time"
)

// recountMetric has a sample while the operator leads.
const recountMetric = "cardquota_last_recount_timestamp_seconds"

// metricsState is what the observer knows of the pages of both programs.
type metricsState struct {
	// pages are the samples of the last pages, nil without any; pageError is why there are none.
	pages     *samplePages
	pageError string
	errors    map[string]*entryState
	// restarts are the times between two pages of different operators.
	restarts []window
	seconds  cardSeconds
	bindings bindings
}

type samplePages struct {
	operator, scheduler []sample
	operatorProcess     int
	// asked and answered are the times of the operator's page.
	asked, answered time.Time
}

// window is a time in which nothing is certain.
type window struct{ from, to time.Time }

func newMetricsState() metricsState {
	return metricsState{errors: map[string]*entryState{}, seconds: newCardSeconds()}
}

// recordPages reads new pages. Card-seconds must never fall.
func (m *clusterState) recordPages(pages Pages) error {
	now := &samplePages{operatorProcess: pages.Operator.Process, asked: pages.Operator.Asked, answered: pages.Operator.Answered}
	var err error
	now.operator, err = readSamples(pages.Operator.Text)
	if err != nil {
		return err
	}

	now.scheduler, err = readSamples(pages.Scheduler.Text)
	if err != nil {
		return err
	}

	if last := m.pages; last != nil && last.operatorProcess != now.operatorProcess {
		m.restarts = append(m.restarts, window{last.asked, now.asked})
	} else if n := len(m.restarts); last != nil && n > 0 && m.restarts[n-1].to.Equal(last.asked) && !hasSample(last.operator, recountMetric) {
		m.restarts[n-1].to = now.asked // the next operator did not lead yet
	}

	m.recordServedSeconds(now)
	m.pages = now
	m.pageError = ""

	return nil
}

// hasSample reports whether a page has a metric.
func hasSample(page []sample, name string) bool {
	return slices.ContainsFunc(page, func(s sample) bool { return s.name == name })
}

// checkMetrics compares what the programs sum up with a recount: card-seconds and bindings. checkStatus
// recounts the numbers that the programs show, and tests of each program compare its page with these.
func (m *clusterState) checkMetrics(now time.Time) (open []string) {
	if m.options.Metrics == nil || m.excused[Metrics] > 0 || (m.excused[Status] > 0 && m.excused[Reason] > 0) {
		clear(m.errors)
		return nil
	}

	c := metricsComparison{state: m, wrong: map[string]string{}}
	if m.pages == nil {
		c.compare("pages", "they cannot be read: "+m.pageError)
	} else {
		c.checkOperator(m.pages)
		c.checkScheduler(m.pages)
	}

	open = m.checkEntries(m.errors, c.seen, c.wrong, m.options.ViewWithin, now, func(since time.Time, text string) {
		m.addViolation(Metrics, now, "metrics", "since %s: %s", since.Format("15:04:05.000"), text)
	})
	for i := range open {
		open[i] = "metrics: " + open[i]
	}

	return open
}

// metricsComparison compares pages with a recount.
type metricsComparison struct {
	state *clusterState
	seen  []string
	wrong map[string]string
}

func (c *metricsComparison) compare(key, difference string) {
	c.seen = append(c.seen, key)
	if difference != "" {
		c.wrong[key] = addPrefix(key+": ", difference)
	}
}

func (c *metricsComparison) checkOperator(pages *samplePages) {
	switch {
	case c.state.excused[Status] > 0:
		c.state.bindings.since = time.Time{}
		return
	case !hasSample(pages.operator, recountMetric):
		c.state.bindings.since = time.Time{}
		c.compare("operator", "no operator leads")
		return
	}

	c.compare("operator", "")
	c.checkCardSeconds(pages)
	c.checkBindings(pages)
	c.checkGoneQueues(pages.operator)
}

func (c *metricsComparison) checkScheduler(pages *samplePages) {
	// Other invariants judge a scheduler that waits, is no leader or does not run.
	isReady := slices.ContainsFunc(pages.scheduler, func(s sample) bool { return s.name == "cardquota_ready" && s.value == 1 })
	if isReady && c.state.excused[Reason] == 0 {
		c.checkGoneQueues(pages.scheduler)
	}
}

// concerns reports whether a series is checked: that of a queue, or of the whole fleet. A CardQuota
// that is being deleted may have series until it is gone.
func (c *metricsComparison) concerns(s *sample) bool {
	if queue, ofQueue := s.labels["queue"]; ofQueue {
		owner := c.state.ownerOf(queue)
		return c.state.options.Concerns("queue/"+queue) && (owner == nil || owner.DeletionTimestamp == nil)
	}
	return c.state.options.Concerns(inventoryObject)
}

// checkGoneQueues finds series of queues that do not exist. Card-seconds stay for the bill.
func (c *metricsComparison) checkGoneQueues(page []sample) {
	for i := range page {
		s := &page[i]
		queue, ofQueue := s.labels["queue"]
		if !ofQueue || !c.concerns(s) || s.name == secondsMetric {
			continue
		}
		if c.state.queues[queue] == nil && c.state.ownerOf(queue) == nil {
			c.compare("queue of "+s.key(), "it does not exist")
		}
	}
}
