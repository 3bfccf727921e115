package hostfs

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadJSON returns the value in a JSON file of at most limit bytes. After an error, the value is zero. A missing file is
// the error fs.ErrNotExist.
func ReadJSON[T any](path string, limit int64) (T, error) {
	var v, none T
	data, err := ReadFile(path, limit)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		return none, err
	}
	return v, nil
}

// WriteJSON writes a value to a JSON file like WriteIfChanged. It makes the folder if necessary.
func WriteJSON(path string, v any, mode fs.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_, err = WriteIfChanged(path, append(data, '\n'), mode)
	return err
}
