package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// object is a JSON object. Its members keep their order and their bytes.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// parseObject returns the members of a valid JSON object. It returns no members for null and for
// empty input. It rejects a key that appears twice, even in another case, because programs differ
// in the value that they use.
func parseObject(raw json.RawMessage) (object, error) {
	if isNull(raw) {
		return nil, nil
	}
	var o object
	in := scanner{data: raw}
	err := in.items('{', '}', func() error {
		name, err := in.value()
		if err != nil {
			return err
		}
		var key string
		if err := json.Unmarshal(name, &key); err != nil {
			return err
		}
		if o.index(key) >= 0 {
			return fmt.Errorf("key %q appears twice", key)
		}
		if err := in.expect(':'); err != nil {
			return err
		}
		value, err := in.value()
		o = append(o, member{key, value})
		return err
	})
	if err == nil {
		err = in.end()
	}
	return o, err
}

// decode decodes the values of keys. The target of a missing key does not change.
func (o object) decode(targets map[string]any) error {
	for key, target := range targets {
		if raw := o.get(key); raw != nil {
			if err := json.Unmarshal(raw, target); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

// index returns the index of a key, or -1. It ignores case, as the OCI runtimes written in Go do.
func (o object) index(key string) int {
	for i := range o {
		if strings.EqualFold(o[i].key, key) {
			return i
		}
	}
	return -1
}

// get returns the value of a key, or nil.
func (o object) get(key string) json.RawMessage {
	if i := o.index(key); i >= 0 {
		return o[i].value
	}
	return nil
}

// set replaces the value of a key, or appends the key.
func (o *object) set(key string, value json.RawMessage) {
	if i := o.index(key); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, member{key, value})
}

// encode returns the object as JSON.
func (o object) encode() (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := encode(m.key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// array is a JSON array. Its items keep their bytes.
type array []json.RawMessage

func parseArray(raw json.RawMessage) (array, error) {
	if isNull(raw) {
		return nil, nil
	}
	var a array
	in := scanner{data: raw}
	err := in.items('[', ']', func() error {
		value, err := in.value()
		a = append(a, value)
		return err
	})
	if err == nil {
		err = in.end()
	}
	return a, err
}

// add encodes a value and appends it.
func (a *array) add(v any) error {
	raw, err := encode(v)
	if err == nil {
		*a = append(*a, raw)
	}
	return err
}

// encode returns the array as JSON.
func (a array) encode() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, raw := range a {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(raw)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// encode returns a value as JSON on one line, without escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
