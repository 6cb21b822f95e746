package admission

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/workload"
)

// asked judges what one pod asks for. What no node offers yet is no mistake of
// the pod, and only warned about: the node may come.
func asked(answer *Answer, who string, pod *corev1.Pod, ask workload.Ask, inv *card.Inventory) {
	text, named := pod.Annotations[v1alpha1.AnnotationCardName]
	if named {
		if _, err := card.ParseRequest(text); err != nil {
			answer.refuse("%s: annotation %s: %v", who, v1alpha1.AnnotationCardName, err)
			return
		}
	}
	switch {
	case ask.Refusal != nil && absent(ask, inv):
		answer.warn("%s: %s; it waits until one does (%s)", who, plain(ask.Refusal), offered(inv))
	case ask.Refusal != nil:
		answer.refuse("%s: %s", who, plain(ask.Refusal))
	case ask.Count == 0 && named:
		answer.warn("%s: names card %s in %s but requests no card, so it gets none: write the resource and the number in resources.limits of its container",
			who, clip.Text(text, shown), v1alpha1.AnnotationCardName)
	default:
		for _, name := range ask.Request.Names() {
			if len(inv.ResourcesOf(name)) == 0 {
				answer.warn("%s: names card %s, which no node offers now: %s", who, name, offered(inv))
			}
		}
	}
}

// absent tells that a refusal is for want of a node: the resource is no card
// anywhere, or no node says which card it is.
func absent(ask workload.Ask, inv *card.Inventory) bool {
	return len(ask.Others) == 0 && ask.Count <= card.MaxCount &&
		(ask.Resource == "" || !inv.IsCard(ask.Resource) || ask.Request.Any() && len(inv.Named(ask.Resource)) == 0)
}

// plain is the message of a refusal without the word that begins it: who it is
// about is said before it.
func plain(refusal *workload.Refusal) string { return strings.TrimPrefix(refusal.Message, "Pod ") }
