package configgate

import (
	"context"
	"errors"
)

// Source is a place where a configuration is written; NewConfigMap and NewFile make them.
type Source interface {
	// String names the source in messages.
	String() string
	// watch calls changed after the source may have changed, at least once at the beginning,
	// until ctx ends. It returns early, with an error, only if watching is impossible.
	watch(ctx context.Context, changed func()) error
	// read returns what the source holds now, or errNotRead as long as that is unknown.
	read() (content, error)
}

// errNotRead: the source has not answered yet, so nothing can be said about it.
var errNotRead = errors.New("not read yet")
