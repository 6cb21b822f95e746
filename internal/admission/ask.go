package admission

import (
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/workload"
)

// asked judges what one pod asks for. What no node offers yet is no mistake of
// the pod, and only warned about: the node may come.
func asked(answer *Answer, who string, t *Template, inv *card.Inventory) {
	text, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case ask.Unreadable != "":
		answer.refuse("%s: annotation %s: %s", who, v1alpha1.AnnotationCardName, ask.Unreadable)
	case ask.Denied != nil && absent(ask, inv):
		answer.warn("%s: %s; it waits until one does (%s)", who, plain(ask.Denied), offered(inv))
	case ask.Denied != nil:
		answer.refuse("%s: %s", who, plain(ask.Denied))
	case ask.Count == 0 && named:
		answer.warn("%s: names card %s in %s but requests no card, so it gets none: write the resource and the number in resources.limits of its container",
			who, clip.Text(text, shown), v1alpha1.AnnotationCardName)
	default:
		for _, name := range ask.Named.Names() {
			if len(inv.ResourcesOf(name)) == 0 {
				answer.warn("%s: names card %s, which no node offers now: %s", who, name, offered(inv))
			}
		}
	}
}

// absent tells that a refusal is for want of a node: the resource is no card
// anywhere, or no node says which card it is.
func absent(ask *workload.Request, inv *card.Inventory) bool {
	return len(ask.Others) == 0 && ask.Count <= card.MaxCount &&
		(ask.Resource == "" || !inv.IsCard(ask.Resource) || ask.Named.Any() && len(inv.Named(ask.Resource)) == 0)
}

// plain is the message of a refusal without the word that begins it: who it is
// about is said before it.
func plain(refusal *workload.Refusal) string { return strings.TrimPrefix(refusal.Message, "Pod ") }
