package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
)

// ErrNotBuilt is wrapped by Start's error when binaries of the control plane are missing; make
// controlplane-full builds them.
var ErrNotBuilt = errors.New("the local cluster is not built, run make controlplane-full")

// modulePath identifies the project's root go.mod.
const modulePath = "cardquota.dev/operator"

// Options configure Start. The zero value is a complete cluster without nodes.
type Options struct {
	// BinDir has the control plane's binaries and Volcano's manifests; default
	// <module root>/bin/controlplane.
	BinDir string
	// Dir has state, certificates and logs. By default it is a temporary folder that Stop
	// removes. A folder that is set is created and kept; Start removes the leftovers of an
	// earlier cluster in it.
	Dir string
	// Nodes are created at the start, after those of Fleet.
	Nodes []NodeProfile
	// Fleet is a YAML file with node profiles; see LoadFleet.
	Fleet string
	// APIServerOnly starts only etcd and the apiserver, with Volcano's CRDs: no controller, no
	// webhook and no kubelet. A pod needs no ServiceAccount then.
	APIServerOnly bool
	// ManyObjects is for tens of thousands of objects: etcd and the apiserver collect garbage more often
	// than in other clusters, for less memory.
	ManyObjects bool
	// WithoutVolcano omits Volcano's CRDs, controllers and webhooks.
	WithoutVolcano bool
	// WithoutKwok omits the kubelets: nodes stay as created and pods stay Pending.
	WithoutKwok bool
	// RealNode adds one node that runs containers; see RealNode. Start fails with ErrNoRealNode
	// where that is not possible. The apiserver then listens on all addresses.
	RealNode *RealNode
	// WithKubeScheduler starts kube-scheduler, for pods that name no other scheduler. Without
	// it such pods stay Pending.
	WithKubeScheduler bool
	// Log receives progress ("etcd ready") and crashes of components; default: discard.
	Log logr.Logger
}

// applyDefaults sets defaults and checks that everything needed exists.
func (o *Options) applyDefaults() error {
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}

	if o.BinDir == "" {
		root, err := ModuleRoot()
		if err != nil {
			return err
		}
		o.BinDir = filepath.Join(root, "bin", "controlplane")
	}

	var err error
	o.BinDir, err = filepath.Abs(o.BinDir)
	if err != nil {
		return fmt.Errorf("bin dir: %w", err)
	}

	needed := o.requiredFiles()
	if o.RealNode != nil {
		if err := CanRunRealNode(); err != nil {
			return err
		}
		needed = append(needed, "kubelet", "kube-proxy")
	}

	var missing []string
	for _, name := range needed {
		if _, err := os.Stat(filepath.Join(o.BinDir, name)); err != nil {
			missing = append(missing, name)
		}
	}

	if len(missing) > 0 {
		return fmt.Errorf("%s: no %s: %w", o.BinDir, strings.Join(missing, ", "), ErrNotBuilt)
	}

	return nil
}

// requiredFiles returns the files of BinDir that a cluster without a real node needs.
func (o *Options) requiredFiles() []string {
	needed := []string{"etcd", "kube-apiserver"}
	if !o.WithoutVolcano {
		needed = append(needed, "volcano/crds")
	}

	if o.APIServerOnly {
		return needed
	}

	needed = append(needed, "kube-controller-manager", "kubectl")
	if !o.WithoutVolcano {
		needed = append(needed, "controller-manager", "webhook-manager", "volcano/install.yaml")
	}

	if !o.WithoutKwok {
		needed = append(needed, "kwok")
	}

	if o.WithKubeScheduler {
		needed = append(needed, "kube-scheduler")
	}

	return needed
}

// ModuleRoot returns the folder of the project's go.mod, searched upwards from the working
// directory.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("module root: %w", err)
	}

	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+modulePath+"\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod of module %s above %s", modulePath, dir)
		}
	}
}
