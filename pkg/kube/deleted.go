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
	if status, is := errors.AsType[*StatusError](err); is && status.Code == http.StatusNotFound {
		return true, nil
	}
	return found.Metadata.DeletionTimestamp != "", err
}
