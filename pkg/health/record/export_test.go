package record

import "context"

// Step writes the incidents of a Record once.
func Step(ctx context.Context, r *Record) (any, error) { return r.step(ctx) }
