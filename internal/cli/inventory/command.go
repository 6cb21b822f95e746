// Package inventory is kubectl cardquota inventory: the cards of the fleet, by name or by node.
package inventory

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/nodecards"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/cli/program"
	"cardquota.dev/operator/internal/cli/reader"
	"cardquota.dev/operator/internal/workload"
)

// NewCommand returns the command inventory.
func NewCommand(p *program.Program) *cobra.Command {
	byNode := false
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "Show the cards of the fleet, by name or by node",
		Long: program.Paragraphs("Shows of each card how many nodes have, how many of them are on Ready nodes, how many pods use and how many CardQuotas grant. "+
			"Anomalies follow, with the nodes and what to do. The column EXCESS is what CardQuotas grant beyond the healthy cards.",
			"Without a CardInventory, as on a cluster without Cardquota, it counts nodes and pods itself.",
			"With --nodes it shows what is free on each node. That needs the rights to list nodes and pods. Where it counts itself, a card that no label names has the name of its resource."),
		Example: "  kubectl cardquota inventory\n  kubectl cardquota inventory --nodes -o wide\n  kubectl cardquota inventory -o custom-columns=CARD:.name,USED:.allocated",
		Args:    program.RefuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := p.NewReader()
			if err != nil {
				return err
			}
			if byNode {
				return showNodes(cmd.Context(), p, r)
			}
			return showInventory(cmd.Context(), p, r)
		},
	}

	p.AddListFlags(cmd)
	cmd.Flags().BoolVar(&byNode, "nodes", false, "Show the cards of each node.")
	return cmd
}

// showInventory shows the cards by name, as the CardInventory has them, or without one as the nodes have them.
func showInventory(ctx context.Context, p *program.Program, r *reader.Reader) error {
	inventory, mayRead := reader.Find(ctx, r, client.ObjectKey{Name: v1alpha1.InventoryName}, &v1alpha1.CardInventory{})
	isInstalled := !r.IgnoreMissingKind()
	if inventory != nil {
		list := NewList(inventory.Status)
		return p.Print(list, list.Render)
	}

	refusals := len(r.Gaps) + 1 // nodes are read first, and without them the others say nothing
	use := reader.ReadUse(ctx, r, "")
	devices := reader.ReadDeviceSlices(ctx, r)
	switch err := r.Err(); {
	case err != nil:
		return err
	case !use.HasNodes:
		return errors.New(strings.Join(r.Gaps[:refusals], ", and "))
	}

	notes := r.Gaps
	switch {
	case !isInstalled:
		notes = append(notes, "The cluster has no kind CardInventory: Cardquota is not installed, or only a part of it. These are the cards of the nodes. kubectl cardquota top shows who uses them.")
	case mayRead:
		notes = append(notes, "There is no CardInventory cluster: the operator, which creates it, does not run. kubectl cardquota doctor says more. These are the cards of the nodes.")
	}

	list := newListOfNodes(&use, devices)
	return p.Print(list, func(style output.Style) string { return list.Render(style) + output.Notes(notes) })
}

// showNodes shows the cards of each node. Without the right to list pods it shows no usage.
func showNodes(ctx context.Context, p *program.Program, r *reader.Reader) error {
	var loaded reader.Workloads
	if err := reader.List(ctx, r.Client, &corev1.NodeList{}, func(node *corev1.Node) { loaded.Nodes = append(loaded.Nodes, node) }); err != nil {
		return err
	}

	loaded.ReadPolicy(ctx, r)
	hasPods := reader.ListInto(ctx, r, &corev1.PodList{}, &loaded.Pods)
	if err := r.Err(); err != nil {
		return err
	}

	fleet := nodecards.NewFleet(loaded.Tracker(), loaded.Pods)
	resolver := workload.Resolver{Inventory: fleet.Inventory}
	list := nodecards.NewList(fleet.States(), loaded.Pods, &resolver, hasPods)
	return p.Print(list, func(style output.Style) string { return nodeTable(list).Render(style) + output.Notes(r.Gaps) })
}
