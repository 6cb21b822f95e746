// Package cardreclaim chooses who gives cards back when the tide comes in: whole
// jobs rather than parts of them, and the ones that lose least.
//
// The package is pure: numbers in, a plan out; no client, no clock, no logger.
// What may be taken at all is decided by the caller.
package cardreclaim
