package olm

import (
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runStockScheduler installs the Deployment of Volcano's own scheduler from its installer. Its
// pod runs on the fleet, where kwok plays it: the programs see it, and it schedules nothing.
func (a *administrator) runStockScheduler() {
	a.Helper()
	deployment, err := a.cluster.StockScheduler()
	a.Expect(err).NotTo(HaveOccurred())
	deployments := a.cluster.Client().AppsV1().Deployments(namespace)
	_, err = deployments.Create(a.ctx, deployment, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // an earlier test has scaled it to 0
		_, err = deployments.Update(a.ctx, deployment, metav1.UpdateOptions{})
	}
	a.Expect(err).NotTo(HaveOccurred())
	a.mustKubectl("-n", namespace, "rollout", "status", "deployment/volcano-scheduler", "--timeout=1m")
}
