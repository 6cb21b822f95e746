package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
)

// ExposeService makes a Service lead to a port of this machine, so that the apiserver
// reaches a test process (a webhook) by the Service's name. The process must listen on
// ServiceAddress (or on all addresses) and serve a certificate for <name>.<namespace>.svc.
//
// All ports of the Service, which must exist, lead to the process. Calling it again moves it
// to another port.
func (c *Cluster) ExposeService(ctx context.Context, namespace, name string, port int) error {
	address, err := ServiceAddress()
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}
	service, err := c.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}
	// A prefix of its own keeps clear of the slices that the endpoint slice controller makes.
	slice := discoveryv1ac.EndpointSlice("test-process-"+name, namespace).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: fieldManager}).
		WithAddressType(discoveryv1.AddressTypeIPv4).
		WithEndpoints(discoveryv1ac.Endpoint().
			WithAddresses(address).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true)))
	for _, servicePort := range service.Spec.Ports {
		slice.WithPorts(discoveryv1ac.EndpointPort().
			WithName(servicePort.Name).WithPort(int32(port)).WithProtocol(corev1.ProtocolTCP))
	}
	_, err = c.client.DiscoveryV1().EndpointSlices(namespace).Apply(ctx, slice, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("expose service %s/%s: %w", namespace, name, err)
	}
	return nil
}
