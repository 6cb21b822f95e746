package workload

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/quota"
)

// GroupRequest is the minimum of a PodGroup whose pods do not exist yet. A
// card.request states the whole job's total, minResources what the minimum needs
// of each resource: of each resource the larger counts. Where that is the minimum,
// the requests of the resource share it in proportion, rounded up. A card resource
// that no request asks for may be any card it stands for. What is asked for as
// nothing is no demand.
func (r *Resolver) GroupRequest(total string, written bool, minResources *corev1.ResourceList) (quota.JobRequest, *Refusal) {
	inv := r.Inventory
	var totals card.Totals
	if written {
		var err error
		if totals, err = card.ParseTotals(total); err != nil {
			return quota.JobRequest{}, &Refusal{
				Reason:  ReasonGetTaskRequestFailed,
				Message: fmt.Sprintf("PodGroup annotation %s: %v", v1alpha1.AnnotationCardRequest, err),
			}
		}
	}
	minimum := corev1.ResourceList{}
	if minResources != nil {
		minimum = *minResources
	}
	of, named := make([]corev1.ResourceName, len(totals)), map[corev1.ResourceName]card.Count{}
	for i, t := range totals {
		of[i] = inv.ResourceOf(t.Request)
		named[of[i]] = named[of[i]].Add(t.Count)
	}
	all := quota.Merger{JobRequest: quota.JobRequest{MilliCPU: bounded(minimum.Cpu(), resource.Milli), Memory: bounded(minimum.Memory(), 0)}}
	for i, t := range totals {
		name, count := of[i], t.Count
		if least, ok := minimum[name]; ok && name != "" && count > 0 {
			count = max(count, share(count, named[name], card.CountOf(least)))
		}
		all.Add(quota.Request{Names: t.Request.Names(), Count: count})
	}
	for _, name := range slices.Sorted(maps.Keys(minimum)) {
		quantity := minimum[name]
		if named[name] == 0 && inv.IsCard(name) && quantity.Sign() > 0 {
			all.Add(quota.Request{Names: inv.Named(name), Count: card.CountOf(quantity)})
		}
	}
	return all.JobRequest, nil
}

// share is count's part of least, where all counts together are total.
func share(count, total, least card.Count) card.Count { return (least*count + total - 1) / total }

// TotalOf is the text of card.request that the maker of a job wrote down. A Deployment
// has none: it begins with one pod and grows.
func TotalOf(group metav1.Object) (text string, written bool) {
	if slices.ContainsFunc(group.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.Kind == "ReplicaSet" }) {
		return "", false
	}
	text, written = group.GetAnnotations()[v1alpha1.AnnotationCardRequest]
	return text, written
}
