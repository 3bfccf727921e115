package model

import (
	"errors"
	"fmt"

	"outrigger.dev/pkg/config/strict"
)

// section is a mapping of a model, over the same mapping of its base.
type section struct{ own, base strict.Map }

// Get returns the value of a key. Without one, it is the value of the base.
func (s section) Get(key string) strict.Value {
	own := s.own.Get(key)
	if base := s.base.Get(key); !own.Set() && base.Set() {
		return base
	}
	return own
}

// Map returns a mapping of the section.
func (s section) Map(key string, known ...string) section {
	return section{own: s.own.Get(key).Map(known...), base: s.base.Get(key).Map(known...)}
}

// ParseOwn reads an own model of the chart gpu-sim: the keys of a data file, without the names, as YAML or JSON. name is its
// key in the value models. The error has all mistakes, each with its path in the values.
func ParseOwn(name string, data []byte) (Model, error) {
	path := "models." + name
	doc := strict.Parse(path, data)
	p := &parser{m: Model{Name: name}}
	base := p.read(doc, path, keys())
	var errs []error
	if len(name) > maxName || !simpleName.MatchString(name) {
		errs = append(errs, fmt.Errorf("%s: invalid name: must be %s", path, aName))
	}
	return p.m, errors.Join(append(errs, inValues(doc.Err()), base.Err())...)
}

// inValues returns the errors of a document with the paths of values, which have no lines.
func inValues(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		if in, ok := errors.AsType[*strict.Error](e); ok && in.Key != "" {
			e = fmt.Errorf("%s.%s: %s", in.File, in.Key, in.Text)
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}
