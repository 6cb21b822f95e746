package observer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// TestTenancy: a queue that chooses its namespaces gives cards to no other.
func TestTenancy(t *testing.T) {
	const forChat = `{"matchLabels":{"team":"chat"}}`
	chooses := func(selector string) *v1beta1.Queue {
		q := queue("q", `{"NVIDIA-H200":2}`)
		q.Annotations["volcano.sh/namespace-selector"] = selector
		return q
	}
	ofTeam := func(team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: map[string]string{"team": team}}}
	}
	for _, test := range []struct {
		name string
		play func(*script)
		want []Invariant
	}{
		{"a chosen namespace is fine", func(s *script) {
			s.load(chooses(forChat), ofTeam("chat"))
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
		}, nil},
		{"a queue that does not choose takes every namespace", func(s *script) {
			s.load(ofTeam("lab"))
			s.place(pod("a", "1", h200), "h200-0")
		}, nil},
		{"a left-out namespace is a violation", func(s *script) {
			s.load(chooses(forChat), ofTeam("lab"))
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Tenancy}},
		{"a namespace that nobody has seen is left out", func(s *script) {
			s.load(chooses(forChat))
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Tenancy}},
		{"a selector that cannot be read leaves everybody out", func(s *script) {
			s.load(chooses(`team=chat`), ofTeam("chat"))
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Quota, Tenancy}},
		{"a pod without cards takes none", func(s *script) {
			s.load(chooses(forChat), ofTeam("lab"))
			s.wait(time.Minute)
			s.place(pod("a", "", ""), "h200-0")
		}, nil},
		{"a label that was there less than 10 s ago still counts", func(s *script) {
			s.load(chooses(forChat), ofTeam("chat"))
			s.wait(time.Minute)
			s.write(ofTeam("lab"))
			s.wait(9 * time.Second)
			s.place(pod("a", "1", h200), "h200-0")
		}, nil},
		{"and no longer", func(s *script) {
			s.load(chooses(forChat), ofTeam("chat"))
			s.wait(time.Minute)
			s.write(ofTeam("lab"))
			s.wait(11 * time.Second)
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Tenancy}},
		{"a queue that began to choose less than 10 s ago took everybody then", func(s *script) {
			s.load(ofTeam("lab"))
			s.write(chooses(forChat))
			s.wait(9 * time.Second)
			s.place(pod("a", "1", h200), "h200-0")
			s.wait(2 * time.Second)
			s.place(pod("b", "1", h200), "h200-0")
		}, []Invariant{Tenancy}},
		{"a label that comes afterwards does not count", func(s *script) {
			s.load(chooses(forChat), ofTeam("lab"))
			s.wait(time.Minute)
			s.place(pod("a", "1", h200), "h200-0")
			s.write(ofTeam("chat"))
		}, []Invariant{Tenancy}},
		{"a running pod stays when its namespace is left out", func(s *script) {
			s.load(chooses(forChat), ofTeam("chat"))
			p := pod("a", "1", h200)
			s.place(p, "h200-0")
			s.write(ofTeam("lab"))
			s.wait(time.Minute)
			s.write(unscheduled(p, ""))
			s.judge()
		}, nil},
		{"a namespace made anew has its new labels only", func(s *script) {
			s.load(chooses(forChat), ofTeam("chat"))
			s.wait(time.Minute)
			s.remove(ofTeam("chat"))
			s.write(ofTeam("lab"))
			s.place(pod("a", "1", h200), "h200-0")
		}, []Invariant{Tenancy}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript()
			test.play(s)
			wantInvariants(t, s.machine.found, test.want...)
		})
	}
}
