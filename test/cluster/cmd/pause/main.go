// Command pause runs in a pod's sandbox on the real node. It keeps the pod's namespaces until
// it is terminated.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
