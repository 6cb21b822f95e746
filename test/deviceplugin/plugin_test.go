package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"cardquota.dev/operator/internal/testing/check"
)

// kubelet is the registration server of a kubelet.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	registered chan *v1beta1.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.registered <- request
	return &v1beta1.Empty{}, nil
}

// startKubelet listens in folder like a kubelet.
func startKubelet(t *testing.T, folder string) *kubelet {
	listener := check.Value(net.Listen("unix", filepath.Join(folder, "kubelet.sock")))(t)
	k := &kubelet{registered: make(chan *v1beta1.RegisterRequest, 1)}
	server := grpc.NewServer()
	v1beta1.RegisterRegistrationServer(server, k)
	go func() { _ = server.Serve(listener) }() // ends by Stop
	t.Cleanup(server.Stop)
	return k
}

// TestCardsAreRegisteredAgainAfterTheKubeletHasRemovedTheSocket: a node keeps its cards when its kubelet restarts.
// A kubelet that starts removes the sockets of all device plugins, and expects each to register again. The device
// plugin begins before there is a kubelet, registers 2 cards, and again when its socket is gone.
func TestCardsAreRegisteredAgainAfterTheKubeletHasRemovedTheSocket(t *testing.T) {
	g := NewWithT(check.Trail(t))
	folder := check.Value(os.MkdirTemp("", "plugin"))(t) //nolint:usetesting // socket paths must be short
	t.Cleanup(func() { g.Expect(os.RemoveAll(folder)).To(Succeed()) })

	plugin := check.Value(parseFlags([]string{"--resource=huawei.com/Ascend910", "--count=2", "--folder=" + folder}))(t)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- plugin.serveAcrossRestarts(ctx) }() // before there is a kubelet
	k := startKubelet(t, folder)

	var request *v1beta1.RegisterRequest
	g.Eventually(k.registered, "10s").Should(Receive(&request))
	g.Expect(request.GetResourceName()).To(Equal("huawei.com/Ascend910"))
	socket := filepath.Join(folder, request.GetEndpoint())
	g.Expect(cardsOf(t, socket)).To(Equal([]string{"card-0", "card-1"}))

	g.Expect(os.Remove(socket)).To(Succeed())
	g.Eventually(k.registered, "10s").Should(Receive())
	g.Expect(cardsOf(t, socket)).To(HaveLen(2))
	cancel()
	g.Eventually(ended, "10s").Should(Receive(MatchError(context.Canceled)))
}

func cardsOf(t *testing.T, socket string) []string {
	g := NewWithT(check.Trail(t))
	connection := check.Value(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()

	stream := check.Value(v1beta1.NewDevicePluginClient(connection).ListAndWatch(t.Context(), &v1beta1.Empty{}))(t)
	list := check.Value(stream.Recv())(t)

	var ids []string
	for _, card := range list.GetDevices() {
		g.Expect(card.GetHealth()).To(Equal(v1beta1.Healthy))
		ids = append(ids, card.GetID())
	}

	return ids
}

// TestContainersGetTheIDsOfTheirCards: a container learns from an environment variable, here CARDS, which cards are
// its own. The kubelet chooses them: card-1 and card-3 for the first container, card-0 for the second.
func TestContainersGetTheIDsOfTheirCards(t *testing.T) {
	g := NewWithT(check.Trail(t))
	plugin := check.Value(parseFlags([]string{"--env=CARDS", "--count=4"}))(t)
	response := check.Value(plugin.Allocate(t.Context(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{
		{DevicesIds: []string{"card-1", "card-3"}}, {DevicesIds: []string{"card-0"}},
	}}))(t)
	g.Expect(response.GetContainerResponses()).To(HaveLen(2))
	g.Expect(response.GetContainerResponses()[0].GetEnvs()).To(Equal(map[string]string{"CARDS": "card-1,card-3"}))
	g.Expect(response.GetContainerResponses()[1].GetEnvs()).To(Equal(map[string]string{"CARDS": "card-0"}))
}

// TestBadCommandLinesAreRefused: a device plugin with a wrong flag does not start: a count below 1 would offer no
// card, and --cards is no flag.
func TestBadCommandLinesAreRefused(t *testing.T) {
	for argument, want := range map[string]string{
		"--count=0":  "--count is 0: it must be at least 1",
		"--count=-1": "--count is -1: it must be at least 1",
		"--cards=1":  "flag provided but not defined: -cards",
	} {
		_, err := parseFlags([]string{argument})
		check.Says(t, err, want)
	}
}
