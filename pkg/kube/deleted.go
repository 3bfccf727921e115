package kube

import (
	"context"
	"errors"
	"net/http"
)

// Deleted reports whether an object is being deleted, or does not exist. It needs the verb
// get.
func (c *Client) Deleted(ctx context.Context, o Object) (bool, error) {
	var found struct {
		Metadata struct {
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	err := c.Get(ctx, o, &found)
	if Missing(err) {
		return true, nil
	}
	return found.Metadata.DeletionTimestamp != "", err
}

// Missing reports whether err says that an object does not exist.
func Missing(err error) bool {
	status, is := errors.AsType[*StatusError](err)
	return is && status.Code == http.StatusNotFound
}
