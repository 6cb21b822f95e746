package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/cli/inventoryview"
	"cardquota.dev/operator/internal/cli/output"
	"cardquota.dev/operator/internal/quota"
	"cardquota.dev/operator/internal/workload"
)

func (p *program) newInventoryCommand() *cobra.Command {
	byNode := false
	cmd := &cobra.Command{
		Use:   "inventory",
		Short: "Show the cards of the fleet, by name or by node",
		Long: paragraphs("Shows of each card how many nodes have, how many of them are on Ready nodes, how many pods use and how many CardQuotas grant. "+
			"Anomalies follow, with the nodes and what to do. The column EXCESS is what CardQuotas grant beyond the healthy cards.",
			"With --nodes it shows what is free on each node. That needs the rights to list nodes and pods."),
		Example: "  kubectl cardquota inventory\n  kubectl cardquota inventory --nodes -o wide\n  kubectl cardquota inventory -o custom-columns=CARD:.name,USED:.allocated",
		Args:    refuseArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.connect()
			if err != nil {
				return err
			}
			if byNode {
				return p.showNodes(cmd.Context(), &reader{client: c})
			}
			return p.showInventory(cmd.Context(), &reader{client: c})
		},
	}

	p.addListFlags(cmd)
	cmd.Flags().BoolVar(&byNode, "nodes", false, "Show the cards of each node.")
	return cmd
}

func (p *program) showInventory(ctx context.Context, r *reader) error {
	inventory := &v1alpha1.CardInventory{}
	if err := r.client.Get(ctx, client.ObjectKey{Name: v1alpha1.InventoryName}, inventory); client.IgnoreNotFound(err) != nil {
		return err
	} else if err != nil {
		return errors.New("there is no CardInventory cluster: the operator, which creates it, does not run. kubectl cardquota doctor says more, and --nodes works without it")
	}

	list := inventoryview.NewList(inventory.Status)
	return p.print(list, func(w io.Writer, style output.Style) error {
		if len(list.Cards) == 0 && len(list.Anomalies) == 0 {
			_, err := fmt.Fprintln(w, "No node offers cards, and no CardQuota grants some.")
			return err
		}
		return list.Write(w, style)
	})
}

// showNodes shows the cards of each node. Without the right to list pods it shows no usage.
func (p *program) showNodes(ctx context.Context, r *reader) error {
	var loaded workloads
	if err := listAll(ctx, r.client, func() client.ObjectList { return &corev1.NodeList{} }, func(node *corev1.Node) { loaded.nodes = append(loaded.nodes, node) }); err != nil {
		return err
	}
	if _, err := loaded.readPolicy(ctx, r); err != nil {
		return err
	}

	tracker := loaded.tracker()
	var pods []*corev1.Pod
	hasPods, err := listInto(ctx, r, func() client.ObjectList { return &corev1.PodList{} }, &pods)
	if err != nil {
		return err
	}

	resolver := workload.Resolver{Inventory: tracker.Inventory()}
	list := inventoryview.NewNodeList(tracker.Nodes(), pods, func(pod *corev1.Pod) quota.Charge { return resolver.Usage(pod, nil, nil) }, hasPods)
	return p.print(list, func(w io.Writer, style output.Style) error {
		if len(list.Items) == 0 {
			if _, err := fmt.Fprintln(w, "No node offers cards."); err != nil {
				return err
			}
		} else if err := list.Write(w, style); err != nil {
			return err
		}
		return output.WriteNotes(w, r.gaps)
	})
}
