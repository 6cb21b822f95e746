// Command deviceplugin offers fake cards to a kubelet through the device plugin API. A node
// without cards then counts as a card node. A container sees the ids of its cards in an
// environment variable.
//
//	deviceplugin --resource nvidia.com/gpu --count 8
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := parseFlags(os.Args[1:])
	if err == nil {
		err = p.serveAcrossRestarts(ctx)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func parseFlags(args []string) (*plugin, error) {
	p := &plugin{}
	var count int
	flags := flag.NewFlagSet("deviceplugin", flag.ContinueOnError)
	flags.StringVar(&p.resource, "resource", "nvidia.com/gpu", "`name` of the resource")
	flags.IntVar(&count, "count", 1, "how many cards")
	flags.StringVar(&p.env, "env", "NVIDIA_VISIBLE_DEVICES", "environment variable that gives a container its cards' ids, separated by commas")

	flags.StringVar(&p.folder, "folder", v1beta1.DevicePluginPath, "the kubelet's `folder` of device plugins")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if count < 1 {
		return nil, fmt.Errorf("--count is %d: it must be at least 1", count)
	}

	for i := range count {
		p.cards = append(p.cards, &v1beta1.Device{ID: fmt.Sprintf("card-%d", i), Health: v1beta1.Healthy})
	}

	return p, nil
}
