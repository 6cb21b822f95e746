package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cardquota.dev/operator/api/v1alpha1"
	"cardquota.dev/operator/internal/card"
	"cardquota.dev/operator/internal/conditions"
	"cardquota.dev/operator/internal/scheduler/cache"
	"cardquota.dev/operator/internal/schedulerconfig"
	"cardquota.dev/operator/internal/servicetype"
)

// Arguments are the plugin's arguments in volcano-scheduler.conf.
type Arguments struct {
	// CardUnlimitedCPUMemory exempts pods with cards from the CPU and memory limits of their
	// queue. They are not counted there either.
	CardUnlimitedCPUMemory bool
	// OverCommitFactor multiplies the quota at enqueue only, so that pods may wait for cards
	// that others will release. At least 1.
	OverCommitFactor float64
	// MaxReservation is how long more and more free cards prolong the reservation of a job in all.
	MaxReservation time.Duration
	// UnmanagedQueues says what a queue without card.quota may use.
	UnmanagedQueues v1alpha1.UnmanagedQueues
	// NodeOrderWeight multiplies packingScore, against the scores of other plugins.
	NodeOrderWeight float64
	// ServiceTypes says which service type may reclaim cards from which.
	ServiceTypes servicetype.Matrix
	// Owners gives the service type of pods that name none.
	Owners servicetype.OwnerKinds
	// VictimOrder says in which order jobs of other queues lose cards.
	VictimOrder v1alpha1.VictimOrder
	// reclaimResources says what is taken back between queues.
	reclaimResources v1alpha1.ReclaimResources
	// QueueHierarchy says whether queues form a tree.
	QueueHierarchy v1alpha1.QueueHierarchy
	// PriorityClasses are those whose priority counts between queues.
	PriorityClasses servicetype.PriorityClasses
	// Cards name the cards of resources that the labels of nodes do not name.
	Cards card.Mappings
	// ConfigHash identifies the configuration the session runs with.
	ConfigHash string
}

// maxMaxReservation is the largest value of MaxReservation.
const maxMaxReservation = 24 * time.Hour

// maxErrorLength bounds the text of all errors in bytes: an event takes 1024, and it names the
// source first.
const maxErrorLength = 900

// argumentParsers parse each argument into its field.
var argumentParsers = map[string]func(*Arguments, any) error{
	schedulerconfig.ArgumentUnlimitedCPUMemory: func(a *Arguments, v any) (err error) {
		a.CardUnlimitedCPUMemory, err = parseBool(v)
		return err
	},
	schedulerconfig.ArgumentOverCommitFactor: func(a *Arguments, v any) error {
		f, ok := parseNumber(v)
		if !ok || !(f >= 1 && f <= 100) {
			return errors.New("write a number from 1 to 100")
		}
		a.OverCommitFactor = f
		return nil
	},
	schedulerconfig.ArgumentMaxReservation: func(a *Arguments, v any) (err error) {
		a.MaxReservation, err = parseDuration(v)
		if err != nil {
			return err
		}
		if a.MaxReservation < cache.ReservationTimeout || a.MaxReservation > maxMaxReservation {
			return fmt.Errorf("write %s to %s", cache.ReservationTimeout, maxMaxReservation)
		}
		return nil
	},
	schedulerconfig.ArgumentUnmanagedQueues: func(a *Arguments, v any) error {
		a.UnmanagedQueues = v1alpha1.UnmanagedQueues(fmt.Sprint(v))
		if !slices.Contains([]v1alpha1.UnmanagedQueues{v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny}, a.UnmanagedQueues) {
			return fmt.Errorf("write %s, %s or %s", v1alpha1.UnmanagedEnforce, v1alpha1.UnmanagedIgnore, v1alpha1.UnmanagedDeny)
		}
		return nil
	},
	schedulerconfig.ArgumentNodeOrderWeight: func(a *Arguments, v any) error {
		f, ok := parseNumber(v)
		if !ok || !(f > 0 && f <= 1000) {
			return errors.New("write a number above 0, at most 1000")
		}
		a.NodeOrderWeight = f
		return nil
	},
	schedulerconfig.ArgumentOwners: func(a *Arguments, v any) (err error) {
		a.Owners, err = parseOwners(v)
		return err
	},
	schedulerconfig.ArgumentServiceTypes: func(a *Arguments, v any) (err error) {
		a.ServiceTypes, err = parseServiceTypes(v)
		return err
	},
	schedulerconfig.ArgumentVictimOrder: func(a *Arguments, v any) error {
		a.VictimOrder = v1alpha1.VictimOrder(fmt.Sprint(v))
		if a.VictimOrder != v1alpha1.VictimsByPriority && a.VictimOrder != v1alpha1.VictimsByLoss {
			return fmt.Errorf("write %s or %s", v1alpha1.VictimsByPriority, v1alpha1.VictimsByLoss)
		}
		return nil
	},
	schedulerconfig.ArgumentReclaimResources: func(a *Arguments, v any) error {
		a.reclaimResources = v1alpha1.ReclaimResources(fmt.Sprint(v))
		if a.reclaimResources != v1alpha1.ReclaimResourcesCards && a.reclaimResources != v1alpha1.ReclaimResourcesAll {
			return fmt.Errorf("write %s or %s", v1alpha1.ReclaimResourcesCards, v1alpha1.ReclaimResourcesAll)
		}
		return nil
	},
	schedulerconfig.ArgumentQueueHierarchy: func(a *Arguments, v any) error {
		a.QueueHierarchy = v1alpha1.QueueHierarchy(fmt.Sprint(v))
		if a.QueueHierarchy != v1alpha1.QueueHierarchyFlat && a.QueueHierarchy != v1alpha1.QueueHierarchyTree {
			return fmt.Errorf("write %s or %s", v1alpha1.QueueHierarchyFlat, v1alpha1.QueueHierarchyTree)
		}
		return nil
	},
	schedulerconfig.ArgumentPriorityClasses: func(a *Arguments, v any) (err error) {
		a.PriorityClasses, err = parsePriorityClasses(v)
		return err
	},
	schedulerconfig.ArgumentCards: func(a *Arguments, v any) (err error) {
		a.Cards, err = card.ParseMappings(v)
		return err
	},
	schedulerconfig.HashArgument: func(a *Arguments, v any) error {
		var ok bool
		a.ConfigHash, ok = v.(string)
		if !ok {
			return errors.New("it is written by the scheduler itself: remove it")
		}
		return nil
	},
}

// ValidateArguments returns everything that is wrong with the plugin's arguments in
// volcano-scheduler.conf.
func ValidateArguments(raw map[string]any) error {
	_, err := ParseArguments(raw)
	return err
}

// ParseArguments parses all arguments. After any error it returns the defaults of all, so a misspelt argument
// never leaves a configuration in force in part.
func ParseArguments(raw map[string]any) (Arguments, error) {
	defaults := Arguments{
		OverCommitFactor: 1, NodeOrderWeight: 1, MaxReservation: cache.DefaultMaxReservation,
		UnmanagedQueues: v1alpha1.UnmanagedEnforce, ServiceTypes: servicetype.DefaultMatrix(),
		VictimOrder: v1alpha1.VictimsByPriority, PriorityClasses: servicetype.DefaultPriorityClasses(),
		reclaimResources: v1alpha1.ReclaimResourcesCards, QueueHierarchy: v1alpha1.QueueHierarchyFlat,
	}
	args := defaults

	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		parse, ok := argumentParsers[key]
		if !ok {
			wrong = append(wrong, fmt.Errorf("unknown argument %.80q: this version knows %s", key,
				strings.Join(slices.Sorted(maps.Keys(argumentParsers)), ", ")))
			continue
		}

		if err := parse(&args, raw[key]); err != nil {
			wrong = append(wrong, fmt.Errorf("argument %s is %s: %w", key, quoteValue(raw[key]), err))
		}
	}

	if len(wrong) > 0 {
		text := strings.ReplaceAll(errors.Join(wrong...).Error(), "\n", "; ")
		return defaults, errors.New(conditions.Truncate(text, maxErrorLength))
	}

	return args, nil
}

// quoteValue returns a wrong value for a message, shortened and with escapes. Only text is quoted, so it does not
// look like a number or flag.
func quoteValue(value any) string {
	quoted := fmt.Sprintf("%.80q", fmt.Sprint(value))
	if _, isText := value.(string); isText {
		return quoted
	}
	return quoted[1 : len(quoted)-1]
}

// parseBool parses a boolean, also a quoted one, as Helm values often are.
func parseBool(v any) (bool, error) {
	text := strings.ToLower(fmt.Sprint(v))
	if text != "true" && text != "false" {
		return false, errors.New("write true or false")
	}
	return text == "true", nil
}

// parseNumber parses a number of any width, also a quoted one.
func parseNumber(v any) (float64, bool) {
	switch v.(type) {
	case int, int64, uint64, float64, string:
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		return f, err == nil
	}
	return 0, false
}

// parseOwners parses podOwnerReferenceToServiceType: kind → service type.
func parseOwners(value any) (servicetype.OwnerKinds, error) {
	owners, err := parseEntries(value, "write kinds and service types, for example Job: training", func(kind string, value any) (string, error) {
		name, ok := value.(string)
		if !ok {
			return "", fmt.Errorf("kind %.80q: write the name of a service type", kind)
		}
		return name, nil
	})
	if err != nil {
		return nil, err
	}
	return owners, servicetype.OwnerKinds(owners).Validate()
}

// parseServiceTypes parses ServiceTypes, the reclaim matrix:
//
//	ServiceTypes:
//	  inference: {reclaimFrom: [training]}
//	  training: {reclaimable: true, minimumRuntime: 10m}
func parseServiceTypes(value any) (servicetype.Matrix, error) {
	matrix, err := parseEntries(value, "write service types with reclaimable and reclaimFrom", func(name string, value any) (servicetype.Rule, error) {
		rule, err := parseRule(value)
		if err != nil {
			return rule, fmt.Errorf("type %.80q: %w", name, err)
		}
		return rule, nil
	})
	if err != nil {
		return nil, err
	}
	return matrix, servicetype.Matrix(matrix).Validate()
}

// parseRule parses the rule of one service type: from which it reclaims, whether it can be reclaimed, and the
// minimum runtime of its pods. An unknown key is an error.
func parseRule(value any) (servicetype.Rule, error) {
	var rule servicetype.Rule
	if value == nil {
		return rule, nil // a type that neither reclaims nor is reclaimed
	}

	entries, err := parseMapping(value)
	if err != nil {
		return rule, fmt.Errorf("write reclaimable and reclaimFrom below it: %w", err)
	}

	for _, key := range slices.Sorted(maps.Keys(entries)) {
		var ok bool
		switch key {
		case schedulerconfig.ServiceTypeReclaimable:
			rule.Reclaimable, err = parseBool(entries[key])
			if err != nil {
				return rule, fmt.Errorf("reclaimable: %w", err)
			}
		case schedulerconfig.ServiceTypeReclaimFrom:
			rule.ReclaimFrom, ok = parseStrings(entries[key])
			if !ok {
				return rule, errors.New("reclaimFrom: write a list of service types, for example [training]")
			}
		case schedulerconfig.ServiceTypeMinimumRuntime:
			rule.MinimumRuntime, err = parseDuration(entries[key])
			if err != nil {
				return rule, fmt.Errorf("minimumRuntime: %w", err)
			}
		default:
			return rule, fmt.Errorf("unknown key %.80q: write reclaimable, reclaimFrom or minimumRuntime", key)
		}
	}

	return rule, nil
}

// parsePriorityClasses parses PriorityClasses: name of a PriorityClass → value.
func parsePriorityClasses(value any) (servicetype.PriorityClasses, error) {
	values, err := parseEntries(value, "write PriorityClasses and their values, for example pc-high: 80000", func(name string, value any) (int32, error) {
		f, ok := parseNumber(value)
		if !ok || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 {
			return 0, fmt.Errorf("PriorityClass %.80q: write its value, a whole number", name)
		}
		return int32(f), nil
	})
	if err != nil {
		return servicetype.PriorityClasses{}, err
	}

	classes := servicetype.NewPriorityClasses(values)
	return classes, classes.Validate()
}

// parseDuration parses a duration such as 10m or 1h30m. It refuses a bare number, which has no
// unit.
func parseDuration(value any) (time.Duration, error) {
	text, _ := value.(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("write a duration, for example 10m")
	}
	return d, nil
}

// parseEntries parses each entry of a mapping in the order of the keys, so the first error is
// always the same. usage is the error for anything but a mapping.
func parseEntries[V any](value any, usage string, read func(key string, value any) (V, error)) (map[string]V, error) {
	entries, err := parseMapping(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", usage, err)
	}

	all := make(map[string]V, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		all[key], err = read(key, entries[key])
		if err != nil {
			return nil, err
		}
	}

	return all, nil
}

// parseMapping reads a nested mapping. Volcano's YAML library returns keys of any type, that of
// the configuration loader strings.
func parseMapping(value any) (map[string]any, error) {
	switch entries := value.(type) {
	case map[string]any:
		return entries, nil
	case map[any]any:
		named := make(map[string]any, len(entries))
		for key, entry := range entries {
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("key %s is not a word", quoteValue(key))
			}
			named[name] = entry
		}

		return named, nil
	}
	return nil, errors.New("it is not a mapping")
}

// parseStrings parses a list of texts, an empty one if the key has no value.
func parseStrings(value any) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}

	names := make([]string, len(list))
	for i, entry := range list {
		names[i], ok = entry.(string)
		if !ok {
			return nil, false
		}
	}

	return names, true
}
