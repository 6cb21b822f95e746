package cardquota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/queueusage"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// pages is an API server that takes a second for each list. It counts the requests and the largest page.
type pages struct {
	client.Reader
	groups   []v1beta1.PodGroup
	pods     []metav1.PartialObjectMetadata
	requests int
	largest  int
	fails    error
	// meanwhile happens during the first list.
	meanwhile func()
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(options)

	p.requests++
	if p.requests == 1 && p.meanwhile != nil {
		p.meanwhile()
	}

	time.Sleep(time.Second)
	if p.fails != nil {
		return p.fails
	}

	begin, _ := strconv.Atoi(asked.Continue)
	page := func(all int) int {
		end := all
		if asked.Limit > 0 {
			end = min(all, begin+int(asked.Limit))
		}
		p.largest = max(p.largest, end-begin)
		if end < all {
			list.SetContinue(strconv.Itoa(end))
		}
		return end
	}

	switch list := list.(type) {
	case *v1beta1.PodGroupList:
		list.Items = p.groups[begin:page(len(p.groups))]
	case *metav1.PartialObjectMetadataList:
		list.Items = p.pods[begin:page(len(p.pods))]
	}

	return nil
}

// newScheme returns the types that the controller reads and writes.
func newScheme(t *testing.T) *runtime.Scheme {
	return builder.Scheme(t, clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme)
}

// newCounter is a Reconciler whose cache has no PodGroup but those given.
func newCounter(t *testing.T, live client.Reader, cached ...client.Object) *Reconciler {
	return &Reconciler{client: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(cached...).Build(), live: live, inventory: &tracked{}, memberCounts: newMemberCounts()}
}

// members returns the members of a queue as the reconcile of its deleted CardQuota gets them. It is false while a count
// runs that does not include this queue.
func (r *Reconciler) members(ctx context.Context, queue string) (members queueusage.Members, known bool, err error) {
	return r.memberCounts.membersOf(builder.CardQuota(queue).Obj(), func(owners map[string]*v1alpha1.CardQuota) (map[string]queueusage.Members, error) {
		return r.countMembers(ctx, owners)
	})
}

// TestManyDeletedCardQuotasShareTheListsOfMembers: before the operator deletes the queue of a deleted
// CardQuota, it lists all PodGroups and pods from the API server. The cache may lack a new one of that queue.
// One count answers all CardQuotas that wait for it, so 200 deleted CardQuotas need two counts. The first is
// for the CardQuota that one of the eight workers takes first. Meanwhile the other workers put off the 199
// others, and the second count is for these. Each count lists 3,000 pods and 375 PodGroups in pages.
func TestManyDeletedCardQuotasShareTheListsOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			quotas = 200
			pods   = 3000
		)

		// The pods and PodGroups that the API server lists.
		api := &pages{}
		for i := range pods {
			group := builder.PodGroup("lab", fmt.Sprint("g", i/8)).Queue("other").Obj()
			if i%8 == 0 {
				api.groups = append(api.groups, *group)
			}
			api.pods = append(api.pods, metav1.PartialObjectMetadata{ObjectMeta: builder.Pod("lab", fmt.Sprint("p", i)).PodGroup(group.Name).Obj().ObjectMeta})
		}

		// Each worker asks for the members of a queue, and again later when they are not known yet.
		r := newCounter(t, api)
		waiting := make(chan string, quotas)
		for i := range quotas {
			waiting <- fmt.Sprint("q", i)
		}

		answers := make(chan error, quotas)
		for range 8 { // workers
			go func() {
				for queue := range waiting {
					members, known, err := r.members(t.Context(), queue)
					if err == nil && !known {
						time.AfterFunc(memberRetry, func() { waiting <- queue })
						continue
					}
					if err == nil && members.Any() {
						err = fmt.Errorf("queue %s has %s", queue, members)
					}

					answers <- err
				}
			}()
		}

		for range quotas {
			check.NoError(t, <-answers)
		}

		close(waiting)
		perCount := (pods/8+memberPageSize-1)/memberPageSize + pods/memberPageSize
		check.That(t, api.largest <= memberPageSize, "%d objects were listed at once, at most %d may be", api.largest, memberPageSize)
		check.Equal(t, "requests of two counts", 2*perCount, api.requests)
	})
}

// TestMembersAreCountedOnTheAPIServer: the queue of a deleted CardQuota stays while it has members. These are
// PodGroups that have not completed, and pods that name the queue or belong to one of its PodGroups. The
// PodGroup decides before the annotation of a pod. The objects of a row are on the API server alone, as if they
// were created a moment ago. The cache has PodGroup of-other, of another queue.
func TestMembersAreCountedOnTheAPIServer(t *testing.T) {
	ofOther := builder.PodGroup("lab", "of-other").Queue("other").Obj()
	completed := builder.PodGroup("lab", "g").Queue("q").Phase(v1beta1.PodGroupCompleted).Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		groups []v1beta1.PodGroup
		pods   []metav1.PartialObjectMetadata
		want   queueusage.Members
	}{
		"no object":                                            {},
		"a PodGroup of the queue":                              {groups: []v1beta1.PodGroup{*builder.PodGroup("lab", "g").Queue("q").Obj()}, want: queueusage.Members{PodGroups: 1}},
		"a PodGroup of another queue":                          {groups: []v1beta1.PodGroup{*ofOther}},
		"a completed PodGroup":                                 {groups: []v1beta1.PodGroup{*completed}},
		"a pod of a completed PodGroup":                        {groups: []v1beta1.PodGroup{*completed}, pods: metadataOf(builder.Pod("lab", "p").PodGroup("g")), want: queueusage.Members{Pods: 1}},
		"a pod that names the queue":                           {pods: metadataOf(builder.Pod("lab", "p").Queue("q")), want: queueusage.Members{Pods: 1}},
		"a pod that names the queue, of a PodGroup of another": {pods: metadataOf(builder.Pod("lab", "p").Queue("q").PodGroup("of-other"))},
		"a pod that names another queue":                       {pods: metadataOf(builder.Pod("lab", "p").Queue("other"))},
	}) {
		synctest.Test(t, func(t *testing.T) {
			members, known, err := newCounter(t, &pages{groups: tc.groups, pods: tc.pods}, ofOther).members(t.Context(), "q")
			check.NoError(t, err)
			check.That(t, known, "the members of the only queue that is counted are not known")
			check.Equal(t, "members", tc.want, members)
		})
	}
}

// metadataOf returns what the API server lists of a pod.
func metadataOf(pod *builder.PodBuilder) []metav1.PartialObjectMetadata {
	return []metav1.PartialObjectMetadata{{ObjectMeta: pod.Obj().ObjectMeta}}
}

// TestACountThatFailsIsRepeated: the members of queue b are requested while the count for queue a runs, and no second
// count begins. The count for a fails, so neither queue has an answer. The next requests for both queues are counted
// again.
func TestACountThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeout := errors.New("etcdserver: request timed out")
		api := &pages{fails: timeout}
		r := newCounter(t, api)
		api.meanwhile = func() {
			_, known, err := r.members(t.Context(), "b")
			check.NoError(t, err)
			check.That(t, !known, "the members of b are known while the count for a runs")
		}

		_, _, err := r.members(t.Context(), "a")
		check.That(t, errors.Is(err, timeout), "got error %v", err)

		api.fails = nil
		for _, queue := range []string{"b", "a"} {
			_, known, err := r.members(t.Context(), queue)
			check.NoError(t, err)
			check.That(t, known, "the members of queue %s are not known", queue)
		}
	})
}

// TestAnOldAnswerIsCountedAgain: an earlier count found 7 pods in queue q, and its answer was not read within
// memberCountTTL. The pods may be gone, so the members are counted again: there are none.
func TestAnOldAnswerIsCountedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newCounter(t, &pages{})
		r.memberCounts.counted = map[string]memberAnswer{"q": {members: queueusage.Members{Pods: 7}, at: time.Now()}}
		time.Sleep(memberCountTTL)

		members, _, err := r.members(t.Context(), "q")
		check.NoError(t, err)
		check.Equal(t, "members by a new count", queueusage.Members{}, members)
	})
}

// TestACountKeepsTheAnswersOfTheOneBefore: the members of b and c are requested while the count for a runs, so the next
// count is for both. Only b reads its answer then. The count for d keeps the answer for c, which reads it later without
// a count of its own. An answer is returned once: when c is requested once more, its members are counted again.
func TestACountKeepsTheAnswersOfTheOneBefore(t *testing.T) {
	counts := newMemberCounts()
	counted := 0

	// isKnown reports whether the members of a queue are known at once. meanwhile runs during a count that this begins.
	isKnown := func(queue string, meanwhile func()) bool {
		_, known, err := counts.membersOf(builder.CardQuota(queue).Obj(), func(requested map[string]*v1alpha1.CardQuota) (map[string]queueusage.Members, error) {
			meanwhile()
			counted++
			answers := map[string]queueusage.Members{}
			for queue := range requested {
				answers[queue] = queueusage.Members{Pods: 1}
			}
			return answers, nil
		})
		check.NoError(t, err)
		return known
	}

	nothing := func() {}
	requestOthers := func() {
		check.Equal(t, "b is known before the count for a ended", false, isKnown("b", nothing))
		check.Equal(t, "c is known before the count for a ended", false, isKnown("c", nothing))
	}

	check.Equal(t, "a is known by its own count", true, isKnown("a", requestOthers))
	check.Equal(t, "b is known by the count for b and c", true, isKnown("b", nothing))
	check.Equal(t, "d is known by its own count", true, isKnown("d", nothing))
	check.Equal(t, "c is known by the count before", true, isKnown("c", nothing))
	check.Equal(t, "counts", 3, counted)

	check.Equal(t, "c is known when it is requested once more", true, isKnown("c", nothing))
	check.Equal(t, "counts when an answer is read twice", 4, counted)
}
