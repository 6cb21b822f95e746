// Package servicetype knows the service types that need no policy: what a
// queue of inference or training is worth to the scheduler.
package servicetype

// The built-in service types.
const (
	Inference = "inference"
	Training  = "training"
)

// Type is what a service type means for its queues.
type Type struct {
	// Priority is the Queue's spec.priority; of two queues the higher one is
	// served first.
	Priority int32
	// Reclaimable tells whether other queues may take cards back from it.
	Reclaimable bool
}

// BuiltIn returns the meaning of a service type. It is false for a name that
// has no built-in meaning: such a queue keeps the priority it has.
func BuiltIn(name string) (Type, bool) {
	switch name {
	case Inference:
		return Type{Priority: 80000, Reclaimable: false}, true
	case Training:
		return Type{Priority: 20000, Reclaimable: true}, true
	default:
		return Type{}, false
	}
}
