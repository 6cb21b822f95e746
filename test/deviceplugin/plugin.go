package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// plugin is the device plugin of one resource.
type plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	resource, env, folder string
	cards                 []*v1beta1.Device
}

// errSocketGone ends a registration: a starting kubelet removes all sockets, and expects the
// plugins to register again.
var errSocketGone = errors.New("the kubelet has removed the socket")

// serveAcrossRestarts serves the kubelet until ctx ends, across restarts of the kubelet.
func (p *plugin) serveAcrossRestarts(ctx context.Context) error {
	for {
		err := p.serve(ctx)
		if !errors.Is(err, errSocketGone) {
			return err
		}
		log.Println(err)
	}
}

// serve registers with the kubelet and serves it until the socket is removed.
func (p *plugin) serve(ctx context.Context) error {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", p.folder, err)
	}
	defer func() { _ = watch.Close() }()

	if err := watch.Add(p.folder); err != nil {
		return fmt.Errorf("watch %s: %w", p.folder, err)
	}
	if err := p.awaitKubelet(ctx, watch); err != nil {
		return err
	}

	socket := filepath.Join(p.folder, p.socketName())
	if err := os.RemoveAll(socket); err != nil {
		return err
	}

	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}

	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()

	if err := p.registerWithKubelet(ctx); err != nil {
		return err
	}

	log.Printf("%d cards of %s registered", len(p.cards), p.resource)
	return p.waitForRemoval(ctx, watch, socket, served)
}

// waitForRemoval returns errSocketGone when the plugin's socket is removed, or why it ends before.
func (p *plugin) waitForRemoval(ctx context.Context, watch *fsnotify.Watcher, socket string, served <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-served:
			return err
		case err := <-watch.Errors:
			return fmt.Errorf("watch %s: %w", p.folder, err)
		case event := <-watch.Events:
			if event.Name == socket && event.Has(fsnotify.Remove) {
				return errSocketGone
			}
		}
	}
}

// socketName returns the name of the plugin's socket.
func (p *plugin) socketName() string {
	return strings.NewReplacer("/", "_", ".", "_").Replace(p.resource) + ".sock"
}

func (p *plugin) kubeletSocket() string {
	return filepath.Join(p.folder, filepath.Base(v1beta1.KubeletSocket))
}

// awaitKubelet waits until the kubelet listens.
func (p *plugin) awaitKubelet(ctx context.Context, watch *fsnotify.Watcher) error {
	for {
		if _, err := os.Stat(p.kubeletSocket()); err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-watch.Errors:
			return fmt.Errorf("watch %s: %w", p.folder, err)
		case <-watch.Events:
		}
	}
}

func (p *plugin) registerWithKubelet(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+p.kubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	defer func() { _ = connection.Close() }()

	_, err = v1beta1.NewRegistrationClient(connection).Register(ctx, &v1beta1.RegisterRequest{
		Version: v1beta1.Version, Endpoint: p.socketName(), ResourceName: p.resource,
	}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("register %s: %w", p.resource, err)
	}

	return nil
}

// GetDevicePluginOptions requests no options.
func (p *plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch reports the cards, which never change.
func (p *plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	if err := stream.Send(&v1beta1.ListAndWatchResponse{Devices: p.cards}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate passes each container the ids of its cards.
func (p *plugin) Allocate(_ context.Context, request *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	response := &v1beta1.AllocateResponse{}
	for _, container := range request.GetContainerRequests() {
		response.ContainerResponses = append(response.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{p.env: strings.Join(container.GetDevicesIds(), ",")},
		})
	}
	return response, nil
}
