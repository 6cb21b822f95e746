// Package enforcement judges whether quotas are proven to be enforced: whether
// our scheduler is at work, alone, by the configuration that was written, and
// no pod holds a card past it.
//
// The package is pure; the time is an argument. Whatever is not proven is not
// said to be true.
package enforcement
