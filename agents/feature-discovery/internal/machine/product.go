package machine

// ReadProduct returns the machine's model, which the file at path holds; "" if
// path is empty or cannot be read.
func ReadProduct(_ string) string { return "" }
