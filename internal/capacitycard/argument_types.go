package capacitycard

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"cardquota.dev/operator/internal/clip"
	"cardquota.dev/operator/internal/servicetype"
)

// parseOwners reads podOwnerReferenceToServiceType: kind → service type.
func parseOwners(value any) (servicetype.Owners, error) {
	entries, err := mapping(value)
	if err != nil {
		return nil, fmt.Errorf("write kinds and service types, for example Job: training: %w", err)
	}
	owners := make(servicetype.Owners, len(entries))
	for _, kind := range slices.Sorted(maps.Keys(entries)) {
		name, ok := entries[kind].(string)
		if !ok {
			return nil, fmt.Errorf("kind %q: write the name of a service type", clip.Text(kind, shown))
		}
		owners[kind] = name
	}
	return owners, owners.Validate()
}

// parseServiceTypes reads serviceTypes, the matrix of the tide:
//
//	serviceTypes:
//	  inference: {reclaimFrom: [training]}
//	  training: {reclaimable: true, minimumRuntime: 10m}
func parseServiceTypes(value any) (servicetype.Matrix, error) {
	entries, err := mapping(value)
	if err != nil {
		return nil, fmt.Errorf("write service types with reclaimable and reclaimFrom: %w", err)
	}
	matrix := make(servicetype.Matrix, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		rule, err := parseRule(entries[name])
		if err != nil {
			return nil, fmt.Errorf("type %q: %w", clip.Text(name, shown), err)
		}
		matrix[name] = rule
	}
	return matrix, matrix.Validate()
}

func parseRule(value any) (servicetype.Rule, error) {
	var rule servicetype.Rule
	if value == nil {
		return rule, nil // a type that neither takes nor is taken from
	}
	entries, err := mapping(value)
	if err != nil {
		return rule, fmt.Errorf("write reclaimable and reclaimFrom below it: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		var ok bool
		switch key {
		case "reclaimable":
			if rule.Reclaimable, ok = flag(entries[key]); !ok {
				return rule, errors.New("reclaimable: write true or false")
			}
		case "reclaimFrom":
			if rule.ReclaimFrom, ok = texts(entries[key]); !ok {
				return rule, errors.New("reclaimFrom: write a list of service types, for example [training]")
			}
		case "minimumRuntime":
			if rule.MinimumRuntime, err = duration(entries[key]); err != nil {
				return rule, fmt.Errorf("minimumRuntime: %w", err)
			}
		default:
			return rule, fmt.Errorf("unknown key %q: write reclaimable, reclaimFrom or minimumRuntime", clip.Text(key, shown))
		}
	}
	return rule, nil
}

// parsePriorityClasses reads priorityClasses: name of a PriorityClass → value.
func parsePriorityClasses(value any) (servicetype.PriorityClasses, error) {
	entries, err := mapping(value)
	if err != nil {
		return servicetype.PriorityClasses{}, fmt.Errorf("write PriorityClasses and their values, for example pc-high: 80000: %w", err)
	}
	values := make(map[string]int32, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		f, ok := number(entries[name])
		if !ok || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 {
			return servicetype.PriorityClasses{}, fmt.Errorf("PriorityClass %q: write its value, a whole number", clip.Text(name, shown))
		}
		values[name] = int32(f)
	}
	classes := servicetype.NewPriorityClasses(values)
	return classes, classes.Validate()
}

// duration reads a text such as 10m or 1h30m. A bare number has no unit and is
// refused.
func duration(value any) (time.Duration, error) {
	text, ok := value.(string)
	if !ok {
		return 0, errors.New("write a duration, for example 10m")
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("write a duration, for example 10m")
	}
	return d, nil
}

// mapping reads a nested mapping. Volcano's YAML library gives its keys any
// type, the configuration gate's gives them the type string.
func mapping(value any) (map[string]any, error) {
	switch entries := value.(type) {
	case map[string]any:
		return entries, nil
	case map[any]any:
		named := make(map[string]any, len(entries))
		for key, entry := range entries {
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("key %s is not a word", written(key))
			}
			named[name] = entry
		}
		return named, nil
	}
	return nil, errors.New("it is not a mapping")
}

func texts(value any) ([]string, bool) {
	if value == nil {
		return nil, true
	}
	list, ok := value.([]any)
	if !ok {
		return nil, false
	}
	names := make([]string, len(list))
	for i, entry := range list {
		if names[i], ok = entry.(string); !ok {
			return nil, false
		}
	}
	return names, true
}
