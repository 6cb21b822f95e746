package enforcement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
)

const (
	noPolicyMessage = "there is no ServiceTypePolicy, so nothing is known of the scheduler's configuration: " +
		"create one named default, an empty spec will do"
	// maxNamedPods bounds the pods that a message names, maxNamedBypasses those with their
	// cards.
	maxNamedPods     = 5
	maxNamedBypasses = 3
	// maxQuotedBytes bounds a quoted text in a message, in bytes.
	maxQuotedBytes = 600
	// shortHashLength is enough to distinguish two hashes.
	shortHashLength = 12
)

// stockSchedulerMessage says which scheduler runs in our place: the one whose pods were found, else the holder of the
// leader Lease.
func (o Observation) stockSchedulerMessage() string {
	if len(o.OtherSchedulers) > 0 {
		return "another scheduler runs in place of Cardquota's and enforces no card quota; " +
			"scale it to 0, and Cardquota's takes over when its pods are gone: " + o.describeOtherSchedulers()
	}
	return fmt.Sprintf("%s has held the leader Lease volcano in namespace %s since %s and sends no heartbeat: "+
		"it is not a scheduler of Cardquota, or an old one, and enforces no card quota; put cardquota-scheduler in its place",
		o.Leader.Identity, o.Namespace, formatTime(o.Leader.Acquired))
}

// describeOtherSchedulers returns the names of the pods of other schedulers.
func (o Observation) describeOtherSchedulers() string {
	names := make([]string, len(o.OtherSchedulers))
	for i, pod := range o.OtherSchedulers {
		names[i] = pod.Name
	}
	return podNoun(len(names)) + " " + conditions.JoinFirst(names, maxNamedPods)
}

// notConfiguredMessage says why the ConfigMap does not follow the policy.
func (o Observation) notConfiguredMessage() string {
	why := cmp.Or(o.NotConfigured, "no configuration was written yet")
	return "the scheduler is not configured as the ServiceTypePolicy says: " + conditions.Truncate(why, maxQuotedBytes)
}

// noHeartbeatMessage says why no report proves that our scheduler runs. Reports that arrive with a wrong time
// are distinguished from missing ones: then clocks must be corrected.
func (o Observation) noHeartbeatMessage() string {
	const look = "check whether a pod of cardquota-scheduler runs and leads, and what its /readyz says"

	lease := fmt.Sprintf("Lease %s in namespace %s", LeaseName, o.Namespace)
	switch report := o.Heartbeat; {
	case report == nil && o.Unreadable != "":
		return fmt.Sprintf("the scheduler's heartbeat, %s, cannot be read: %s", lease, conditions.Truncate(o.Unreadable, maxQuotedBytes))
	case report == nil:
		return fmt.Sprintf("no Cardquota scheduler has ever finished a session: there is no %s; %s", lease, look)
	case report.Ended:
		return fmt.Sprintf("the scheduler %s stopped cleanly after its session of %s, and none has taken over: no card is assigned and nothing is enforced; %s",
			report.Identity, formatTime(report.At), look)
	case report.At.Sub(o.Now) >= StaleAfter:
		return fmt.Sprintf("the heartbeat of %s, %s, has a time that is %s or more in the future and proves nothing: "+
			"correct the clocks of the scheduler's and the operator's node", report.Identity, lease, StaleAfter)
	case o.receivesHeartbeats() && o.ReceivedAt.Sub(report.At) >= StaleAfter:
		return fmt.Sprintf("heartbeats of %s arrive in %s, but their time is %s or more in the past: "+
			"correct the clocks of the scheduler's and the operator's node", report.Identity, lease, StaleAfter)
	default:
		return fmt.Sprintf("no Cardquota scheduler has finished a session since %s, and that was %s: no card is assigned and nothing is enforced; %s",
			formatTime(report.At), report.Identity, look)
	}
}

// secondSchedulerMessage names the pods of another scheduler, else those that another client bound.
func (o Observation) secondSchedulerMessage() string {
	if len(o.OtherSchedulers) > 0 {
		return fmt.Sprintf("another scheduler runs beside %s, and neither knows what the other assigns; scale it to 0: %s",
			o.Heartbeat.Identity, o.describeOtherSchedulers())
	}
	bound := o.Heartbeat.SecondScheduler
	return fmt.Sprintf("another client than %s binds pods of its schedulerName; find the second scheduler of that name and stop it, "+
		"or delete the pods if they were bound by hand: %s %s", o.Heartbeat.Identity, podNoun(len(bound)), conditions.JoinFirst(bound, maxNamedPods))
}

// configNotLoadedMessage says why the scheduler uses another configuration than the written one. For configLoadTimeout
// after a change that is no fault.
func (o Observation) configNotLoadedMessage() string {
	state := fmt.Sprintf("%s uses configuration %s, but %s was written", o.Heartbeat.Identity, shortHash(o.Heartbeat.ConfigHash), shortHash(o.WantedHash))
	switch {
	case o.Heartbeat.ConfigProblem != "":
		return fmt.Sprintf("%s, which it refuses: %s", state, conditions.Truncate(o.Heartbeat.ConfigProblem, maxQuotedBytes))
	case !o.WantedSince.IsZero() && o.Now.Sub(o.WantedSince) < configLoadTimeout:
		return state + " and is being loaded"
	default:
		return fmt.Sprintf("%s, which it has not loaded: a ConfigMap that is mounted into its pod, as in Volcano's own Deployment, takes up to two minutes to arrive; "+
			"otherwise check whether its flag --scheduler-configmap names the ConfigMap cardquota-scheduler-configmap, and its log", state)
	}
}

// bypassMessage says how many pods use which cards that our scheduler did not assign, and names the first pods.
func bypassMessage(all []Bypass) string {
	totals := map[card.Name]card.Count{}
	for _, b := range all {
		for _, amount := range b.Cards {
			totals[amount.Name] = totals[amount.Name].Add(amount.Count)
		}
	}

	amounts := make([]card.Amount, 0, len(totals))
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		amounts = append(amounts, card.Amount{Name: name, Count: totals[name]})
	}

	named := make([]string, len(all)) // the message counts the others
	for i, b := range all[:min(len(all), maxNamedBypasses)] {
		named[i] = fmt.Sprintf("%s (%s: %s)", b.Pod, formatAmounts(b.Cards), b.Reason)
	}

	verb := "hold"
	if len(named) == 1 {
		verb = "holds"
	}

	return fmt.Sprintf("%d %s %s %s that Cardquota's scheduler did not assign; delete and create again with its schedulerName and without nodeName: %s",
		len(named), podNoun(len(named)), verb, formatAmounts(amounts), conditions.JoinFirst(named, maxNamedBypasses))
}

// enforcedMessage names no scheduler: every CardQuota repeats it, and a takeover by another
// replica must not change them all. The ServiceTypePolicy names it in status.scheduler.
const enforcedMessage = "the scheduler enforces the quotas with the configuration that was written"

// maxNamedAmounts bounds the card names in a message.
const maxNamedAmounts = 4

// formatAmounts returns the first maxNamedAmounts amounts: "8 NVIDIA-H200, 2 NVIDIA-H800 and 3 more".
func formatAmounts(amounts []card.Amount) string {
	parts := make([]string, len(amounts))
	for i, amount := range amounts {
		parts[i] = fmt.Sprintf("%d %s", amount.Count, amount.Name)
	}
	return conditions.JoinFirst(parts, maxNamedAmounts)
}

// podNoun returns the word for that many pods.
func podNoun(count int) string {
	if count == 1 {
		return "pod"
	}
	return "pods"
}

// shortHash returns the first characters of a hash, "none" for none.
func shortHash(hash string) string {
	if hash == "" {
		return "none"
	}
	return hash[:min(len(hash), shortHashLength)]
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
