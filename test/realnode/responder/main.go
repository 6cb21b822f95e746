// Command responder is the program of the tests' image. It serves on port 8080:
//
//	/healthz    200
//	/ready      503 until /become-ready was called
//	/env?name=  the value of an environment variable
//	/whoami     the name under which the API server knows the pod
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":8080", Handler: newHandler(), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	log.Println("serving")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func newHandler() http.Handler {
	var ready atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/become-ready", func(http.ResponseWriter, *http.Request) { ready.Store(true) })
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})

	mux.HandleFunc("/env", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, os.Getenv(r.URL.Query().Get("name")))
	})

	mux.HandleFunc("/whoami", func(w http.ResponseWriter, r *http.Request) {
		name, err := whoAmI(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = fmt.Fprint(w, name)
	})
	return mux
}

// whoAmI calls the API server as any program in a pod does: by the Service's address with the
// mounted token and certificate.
func whoAmI(ctx context.Context) (string, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return "", err
	}

	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}

	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}

	return review.Status.UserInfo.Username, nil
}
