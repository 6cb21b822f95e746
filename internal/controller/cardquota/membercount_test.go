package cardquota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cardquota"
	"cardquota.dev/operator/internal/testing/builder"
	"cardquota.dev/operator/internal/testing/check"
)

// pages is an API server that takes a while for each list and remembers how much it was
// asked for.
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
	scheme := builder.Scheme(t, clientgoscheme.AddToScheme, v1beta1.AddToScheme, v1alpha1.AddToScheme)
	return scheme
}

// newCounter is a Reconciler whose cache has no PodGroup but those given.
func newCounter(t *testing.T, live client.Reader, cached ...client.Object) *Reconciler {
	return &Reconciler{client: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(cached...).Build(), live: live, inventory: &tracked{}, memberCounts: newMemberCounts()}
}

// members asks for a queue as a pass over its CardQuota does.
func (r *Reconciler) members(ctx context.Context, queue string) (cardquota.Members, bool, error) {
	return r.memberCounts.membersOf(builder.CardQuota(queue).Obj(), func(owners map[string]*v1alpha1.CardQuota) (map[string]cardquota.Members, error) {
		return r.countMembers(ctx, owners)
	})
}

// TestDeletingManyListsInPagesAndOnceForAll: 200 CardQuotas are deleted in a cluster of
// 3,000 pods, by eight workers.
func TestDeletingManyListsInPagesAndOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			quotas = 200
			pods   = 3000
		)

		api := &pages{}
		for i := range pods {
			group := builder.PodGroup("lab", fmt.Sprint("g", i/8)).Queue("other").Obj()
			if i%8 == 0 {
				api.groups = append(api.groups, *group)
			}
			api.pods = append(api.pods, metav1.PartialObjectMetadata{ObjectMeta: builder.Pod("lab", fmt.Sprint("p", i)).PodGroup(group.Name).Obj().ObjectMeta})
		}

		r := newCounter(t, api)
		waiting := make(chan string, quotas)
		for i := range quotas {
			waiting <- fmt.Sprint("q", i)
		}

		answers := make(chan error, quotas)
		for range 8 {
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
		check.That(t, api.requests <= 3*perCount, "%d requests for %d CardQuotas, want those of three counts, %d each, at most", api.requests, quotas, perCount)
	})
}

// TestWhatIsAMemberOnTheAPIServer: the cache may not have heard of what came a moment ago.
func TestWhatIsAMemberOnTheAPIServer(t *testing.T) {
	other := builder.PodGroup("lab", "of-other").Queue("other").Obj()

	for t, tc := range check.Cases(t, map[string]struct {
		group *v1beta1.PodGroup
		pod   *corev1.Pod
		want  cardquota.Members
	}{
		"nothing":                              {},
		"a PodGroup":                           {group: builder.PodGroup("lab", "g").Queue("q").Obj(), want: cardquota.Members{PodGroups: 1}},
		"a PodGroup of another queue":          {group: other},
		"a completed PodGroup":                 {group: builder.PodGroup("lab", "g").Queue("q").Phase(v1beta1.PodGroupCompleted).Obj()},
		"a pod of a completed PodGroup":        {group: builder.PodGroup("lab", "g").Queue("q").Phase(v1beta1.PodGroupCompleted).Obj(), pod: builder.Pod("lab", "p").PodGroup("g").Obj(), want: cardquota.Members{Pods: 1}},
		"a pod that names the queue":           {pod: builder.Pod("lab", "p").Queue("q").Obj(), want: cardquota.Members{Pods: 1}},
		"a pod whose PodGroup names the other": {pod: builder.Pod("lab", "p").Queue("q").PodGroup("of-other").Obj()},
		"a pod of the other queue":             {pod: builder.Pod("lab", "p").Queue("other").Obj()},
	}) {
		synctest.Test(t, func(t *testing.T) {
			api := &pages{}
			if tc.group != nil {
				api.groups = append(api.groups, *tc.group)
			}
			if tc.pod != nil {
				api.pods = append(api.pods, metav1.PartialObjectMetadata{ObjectMeta: tc.pod.ObjectMeta})
			}
			members, known, err := newCounter(t, api, other).members(t.Context(), "q")
			check.NoError(t, err)
			check.That(t, known, "the only queue that asks is answered at once")
			check.Equal(t, "members", tc.want, members)
		})
	}
}

// TestACountThatFailsIsRepeated: callers that waited for it ask again.
func TestACountThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &pages{fails: errors.New("etcdserver: request timed out")}
		r := newCounter(t, api)
		api.meanwhile = func() {
			_, known, err := r.members(t.Context(), "b")
			check.That(t, !known && err == nil, "a second count began beside the first one: %v", err)
		}

		_, _, err := r.members(t.Context(), "a")
		check.That(t, errors.Is(err, api.fails), "got error %v", err)

		api.fails = nil
		for _, queue := range []string{"b", "a"} {
			_, known, err := r.members(t.Context(), queue)
			check.That(t, known && err == nil, "queue %s: known is %t, error %v", queue, known, err)
		}

		// An answer that was not fetched in time proves nothing.
		r.memberCounts.counted = map[string]memberAnswer{"c": {members: cardquota.Members{Pods: 7}}}
		time.Sleep(memberCountTTL)
		members, _, err := r.members(t.Context(), "c")
		check.NoError(t, err)
		check.Equal(t, "members by a new count", cardquota.Members{}, members)
	})
}

// TestACountKeepsTheAnswersOfTheOneBefore: who has not read an answer of the last count yet
// finds it after the next one, and need not ask again.
func TestACountKeepsTheAnswersOfTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := newMemberCounts()
		counted := 0
		count := func(asked map[string]*v1alpha1.CardQuota) (map[string]cardquota.Members, error) {
			counted++
			answers := map[string]cardquota.Members{}
			for queue := range asked {
				answers[queue] = cardquota.Members{Pods: 1}
			}
			return answers, nil
		}

		// While the count for a is under way, b asks for the next one.
		ask := func(queue string, meanwhile func()) bool {
			_, known, err := counts.membersOf(builder.CardQuota(queue).Obj(), func(asked map[string]*v1alpha1.CardQuota) (map[string]cardquota.Members, error) {
				meanwhile()
				return count(asked)
			})
			check.NoError(t, err)
			return known
		}

		nothing := func() {}
		check.That(t, ask("a", func() {
			check.That(t, !ask("b", nothing) && !ask("c", nothing), "a count has an answer before it ended")
		}), "a has no answer")

		check.That(t, ask("b", nothing), "b has no answer")
		check.That(t, ask("d", nothing), "d has no answer")
		check.That(t, ask("c", nothing), "c has no answer")
		check.Equal(t, "counts", 3, counted)
		check.That(t, ask("c", nothing), "c has no answer when it asks once more")
		check.Equal(t, "counts when an answer is asked for twice", 4, counted)
	})
}
