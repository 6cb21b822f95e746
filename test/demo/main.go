// Command demo is the tour of docs/tour.md. It starts a cluster with a mixed fleet, the
// operator and the scheduler. With kubectl it shows what a quota per card model does, and in a
// second act how inference reclaims cards from training, in a third how tenants of a tree lend each
// other cards. The last act answers questions with the kubectl plugin. The tour ends by itself and
// leaves nothing behind; with KEEP=1 it runs until Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cardquota.dev/operator/test/bench/harness"
	"cardquota.dev/operator/test/cluster"
	"cardquota.dev/operator/test/deployment"
)

// tourTimeout bounds the tour.
const tourTimeout = 5 * time.Minute

func main() {
	harness.RunMain("\ndemo", func(ctx context.Context) error { return run(ctx, isSet(os.Getenv("KEEP"))) })
}

// isSet reports whether a variable such as KEEP is set: to anything but nothing, 0, no and
// false.
func isSet(value string) bool {
	switch strings.ToLower(value) {
	case "", "0", "no", "false":
		return false
	}
	return true
}

func run(ctx context.Context, keep bool) (err error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	if err := findPlugin(root); err != nil {
		return err
	}

	began := time.Now()
	fmt.Println("Starting etcd, Kubernetes, Volcano's controllers and webhooks, and a fleet of simulated nodes …")
	c, err := cluster.Start(ctx, cluster.Options{Fleet: filepath.Join(root, "test", "cluster", "fleets", "mixed.yaml")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()

	fmt.Println("Starting the operator with its webhooks, and our scheduler, with the rights of the shipped ServiceAccounts …")
	if _, err := deployment.StartAsShipped(ctx, c, deployment.Options{}); err != nil {
		return err
	}
	fmt.Printf("Ready after %.0f s.\n", time.Since(began).Seconds())

	tourCtx, cancel := context.WithTimeout(ctx, tourTimeout)
	defer cancel()

	if err := (&tour{Narrator: harness.Narrator{Cluster: c}, ctx: tourCtx, root: root}).run(); err != nil {
		return err
	}

	fmt.Printf("\nThe tour took %.0f s.\n", time.Since(began).Seconds())
	if !keep {
		return nil
	}

	fmt.Printf(`
Everything is still running. In another terminal:

  export KUBECONFIG=%s
  export PATH=%s:%s:$PATH
  kubectl cardquota top

Logs are in %s. Ctrl-C stops it all.
`, c.Kubeconfig(), pluginFolder(root), c.BinDir(), c.Dir())
	<-ctx.Done()

	return nil
}
