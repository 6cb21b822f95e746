package controller

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefused reports whether the API server or an admission webhook refused a write, so that
// trying again at once would only repeat the answer.
func IsRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}
