package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Sum returns the name of the folder of the set.
func (k Key) Sum() string {
	data, err := json.Marshal(k)
	if err != nil {
		// A struct of strings can always be encoded.
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// check returns an error if a part of the key is missing, or if the release is a path out of the cache.
func (k Key) check() error {
	for _, part := range []struct{ name, value string }{
		{"kernel release", k.Release},
		{"machine", k.Machine},
		{"compiler", k.Compiler},
		{"driver version", k.Driver},
		{"flavour", k.Flavour},
		{"sources", k.Sources},
	} {
		if part.value == "" {
			return errors.New("the " + part.name + " of the modules is not known")
		}
	}
	if strings.Contains(k.Release, "/") || !filepath.IsLocal(k.Release) || strings.HasPrefix(k.Release, ".") {
		return fmt.Errorf("%q is not a kernel release", k.Release)
	}
	return nil
}
