//go:build !windows

package main

import "cardquota.dev/operator/internal/scheduler/simulator"

func init() { scheduler = simulator.New() }
