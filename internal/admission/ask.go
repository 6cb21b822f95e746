package admission

import (
	"strings"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/workload"
)

// asked judges what one pod asks for. What no node offers yet is no mistake of
// the pod, and only warned about: the node may come.
func asked(result *Result, t *Template, inv *card.Inventory) {
	name, limits := t.annotation(v1alpha1.AnnotationCardName), t.Path.Child("spec", "containers")
	text, named := t.Pod.Annotations[v1alpha1.AnnotationCardName]
	switch ask := &t.request; {
	case ask.Unreadable != "":
		result.invalid(name, text, "%s", ask.Unreadable)
	case ask.Denied != nil && absent(ask, inv):
		result.warn(limits, "%s; it waits until one does (%s)", plain(ask.Denied), offered(inv))
	case ask.Denied != nil:
		result.refuse(limits, "%s", plain(ask.Denied))
	case ask.Count == 0 && named:
		result.warn(name, "names card %.160s but requests no card, so it gets none: write the resource and the number in resources.limits of its container", text)
	default:
		for _, card := range ask.Named.Names() {
			if len(inv.ResourcesOf(card)) == 0 {
				result.warn(name, "names card %s, which no node offers now: %s", card, offered(inv))
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
