package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/simulation"
	"cardquota.dev/operator/internal/validation"
)

// quotaChanges applies --quota to a snapshot, as if a user changed quota of a CardQuota alone.
type quotaChanges struct {
	reader  *reader.Reader
	cluster *simulation.Cluster
	// all are all CardQuotas, with the changes. isKnown is false for a user who may not list them.
	all     []*v1alpha1.CardQuota
	isKnown bool
	// before has the changed ones as they were, by name.
	before map[string]*v1alpha1.CardQuota
	// notes say what may surprise.
	notes []string
}

// newQuotaChanges lists the CardQuotas. A user may also change quotas of a cluster that has none, or of which he
// may only get those that he names.
func newQuotaChanges(ctx context.Context, r *reader.Reader, cluster *simulation.Cluster) (*quotaChanges, error) {
	q := &quotaChanges{reader: r, cluster: cluster, before: map[string]*v1alpha1.CardQuota{}}
	err := reader.List(ctx, r.Client, &v1alpha1.CardQuotaList{}, func(quota *v1alpha1.CardQuota) { q.all = append(q.all, quota) })
	switch {
	case err == nil:
		q.isKnown = true
	case !reader.IsForbidden(err) && !reader.IsNotInstalled(err):
		return nil, err
	}
	return q, nil
}

// apply sets the quota of one flag, NAME:CARD=N, in the snapshot: in the CardQuota and in its Queue. A Queue
// without a CardQuota has the quota itself.
func (q *quotaChanges) apply(ctx context.Context, text string) error {
	name, parsed, count, err := parseQuotaFlag(text)
	if err != nil {
		return err
	}

	quota, err := q.find(ctx, name)
	if err != nil {
		return err
	}
	if quota == nil {
		return q.cluster.SetQuota(name, parsed, count, false) // what the Queue deserves stays as it is
	}

	// Admission compares the changed CardQuota with that of the cluster. A second flag for it finds it
	// changed already.
	if q.before[quota.Name] == nil {
		q.before[quota.Name] = quota
	}

	changed := withQuota(quota, parsed, count)
	if i := slices.Index(q.all, quota); i >= 0 {
		q.all[i] = changed
	}

	// deserved follows the quota if the CardQuota leaves it out. A written one stays, which may surprise the
	// user.
	written := writtenDeserved(changed, parsed)
	if written != nil && *written < int64(count) && q.deserves(quota.QueueName()) {
		q.notes = append(q.notes, fmt.Sprintf("CardQuota %s still deserves %d %s, because its deserved is written: above that it borrows", quota.Name, *written, parsed))
	}

	return q.cluster.SetQuota(quota.QueueName(), parsed, count, written == nil)
}

// find returns the CardQuota of that name, or the one that owns the Queue of that name. It returns nil
// for a Queue without a CardQuota. A CardQuota that it has to read itself is in all from then on.
func (q *quotaChanges) find(ctx context.Context, name string) (*v1alpha1.CardQuota, error) {
	if i := slices.IndexFunc(q.all, func(c *v1alpha1.CardQuota) bool { return c.Name == name }); i >= 0 {
		return q.all[i], nil
	}

	if !q.isKnown { // a user may have the right to get one, and not to list them
		quota := &v1alpha1.CardQuota{}
		exists, mayRead := q.reader.LookUp(ctx, client.ObjectKey{Name: name}, quota)
		isMissing := q.reader.IgnoreMissingKind()
		switch err := q.reader.Err(); {
		case err != nil:
			return nil, err
		case exists:
			q.all = append(q.all, quota)
			return quota, nil
		case !mayRead && !isMissing:
			return nil, errors.New("you may not read the CardQuota")
		}
	}

	if !slices.ContainsFunc(q.cluster.Queues, func(queue *v1beta1.Queue) bool { return queue.Name == name }) {
		return nil, fmt.Errorf("there is no CardQuota and no Queue %s", name)
	}
	// Several CardQuotas may name the Queue, and one of them owns it.
	owners := slices.DeleteFunc(slices.Clone(q.all), func(c *v1alpha1.CardQuota) bool { return c.QueueName() != name })
	return cardquota.QueueOwner(owners), nil
}

// deserves reports whether what a queue deserves has an effect: in a tree the operator writes it into the Queue.
func (q *quotaChanges) deserves(queue string) bool {
	return slices.ContainsFunc(q.cluster.Queues, func(other *v1beta1.Queue) bool {
		_, isWritten := other.Annotations[v1alpha1.AnnotationCardDeserved]
		return isWritten && other.Name == queue
	})
}

// noteRefusals adds a note for each reason for which admission would refuse the changes.
func (q *quotaChanges) noteRefusals() {
	if len(q.before) > 0 && !q.isKnown {
		q.notes = append(q.notes, "you may not list CardQuotas, so it is unknown whether admission would accept the quota")
		return
	}

	// The user asks what would happen, so a refusal is a note and no error.
	input := validation.CardQuotaInput{All: q.all, Policy: q.cluster.Policy, Queues: q.cluster.Queues, Healthy: q.cluster.Tracker().Healthy()}
	for _, changed := range q.all {
		before := q.before[changed.Name]
		if before == nil {
			continue
		}
		for _, refusal := range validation.ValidateCardQuota(changed, before, input).Truncated().Errors {
			q.notes = append(q.notes, fmt.Sprintf("admission would refuse CardQuota %s with this quota: %s", changed.Name, refusal.Error()))
		}
	}
}

// withQuota returns a CardQuota with another quota for a card.
func withQuota(quota *v1alpha1.CardQuota, name card.Name, count card.Count) *v1alpha1.CardQuota {
	changed := quota.DeepCopy()
	i := slices.IndexFunc(changed.Spec.Cards, func(c v1alpha1.Card) bool { return c.Name == string(name) })
	if i < 0 {
		i = len(changed.Spec.Cards)
		changed.Spec.Cards = append(changed.Spec.Cards, v1alpha1.Card{Name: string(name)})
	}
	changed.Spec.Cards[i].Quota = ptr.To(int64(count))
	return changed
}

// writtenDeserved returns deserved of a card as the CardQuota says it, nil if it leaves it out.
func writtenDeserved(quota *v1alpha1.CardQuota, name card.Name) *int64 {
	for _, c := range quota.Spec.Cards {
		if c.Name == string(name) {
			return c.Deserved
		}
	}
	return nil
}

// parseQuotaFlag parses NAME:CARD=N. The last "=" counts, and the first ":".
func parseQuotaFlag(text string) (name string, parsed card.Name, count card.Count, err error) {
	last := strings.LastIndex(text, "=") // -1 leaves nothing to parse, which is refused
	name, named, ok := strings.Cut(text[:max(last, 0)], ":")
	if !ok || name == "" {
		return "", "", 0, errors.New("write NAME:CARD=N, such as research:NVIDIA-H200=16")
	}

	parsed, err = card.ParseName(named)
	if err != nil {
		return "", "", 0, err
	}

	number, err := strconv.ParseInt(text[last+1:], 10, 64)
	if err != nil || number < 0 || number > int64(card.MaxCount) {
		return "", "", 0, fmt.Errorf("%q is no number of cards: write a whole number from 0 to %d", text[last+1:], card.MaxCount)
	}

	return name, parsed, card.Count(number), nil
}
