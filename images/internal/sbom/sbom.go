// Package sbom lists the contents of programs and images in CycloneDX documents. Equal input gives
// equal bytes.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Release has the properties that all documents of a release share.
type Release struct {
	// Version is the version of our programs and of this repository's libraries.
	Version string
	// Time is the timestamp of the documents.
	Time time.Time
}

// Image describes a container image.
type Image struct {
	// Repository and Tag are parts of the image's name. Arch is its architecture.
	Repository, Tag, Arch string
	// Digest is the digest of the manifest, in hexadecimal.
	Digest string
	// Distribution and Release name the distribution of Packages: "debian" and "12".
	Distribution, Release string
	Packages              []Package
	// Programs has the files of our programs.
	Programs []string
}

// Package is a Debian package.
type Package struct{ Name, Source, Version, Arch, Maintainer string }

// Program returns the document of the Go program at path.
func (r Release) Program(path string) ([]byte, error) {
	d := document{release: r}
	program, err := d.program(path)
	if err != nil {
		return nil, err
	}
	return d.encode(program)
}

// Image returns the document of an image.
func (r Release) Image(i Image) ([]byte, error) {
	d := document{release: r}
	name := i.Repository[strings.LastIndex(i.Repository, "/")+1:]
	query := url.Values{"arch": {i.Arch}, "repository_url": {i.Repository}, "tag": {i.Tag}}
	image := cdx.Component{
		Type: cdx.ComponentTypeContainer, Name: i.Repository, Version: i.Tag, Hashes: hashes(i.Digest),
		PackageURL: "pkg:oci/" + name + "@sha256%3A" + i.Digest + "?" + query.Encode(),
	}
	image.BOMRef = image.PackageURL
	var parts []string
	if len(i.Packages) > 0 {
		distribution := cdx.Component{BOMRef: "os", Type: cdx.ComponentTypeOS, Name: i.Distribution, Version: i.Release}
		parts = append(parts, d.add(distribution))
	}
	for _, p := range i.Packages {
		parts = append(parts, d.add(p.component(i.Distribution, i.Release)))
	}
	for _, path := range i.Programs {
		program, err := d.program(path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, d.add(program))
	}
	d.depend(image.BOMRef, parts)
	return d.encode(image)
}

// component returns the package as a component of a document.
func (p Package) component(distribution, release string) cdx.Component {
	query := url.Values{"arch": {p.Arch}, "distro": {distribution + "-" + release}, "upstream": {p.Source}}
	purl := fmt.Sprintf("pkg:deb/%s/%s@%s?%s", distribution, p.Name, url.QueryEscape(p.Version), query.Encode())
	return cdx.Component{
		BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: purl,
		Supplier: &cdx.OrganizationalEntity{Name: p.Maintainer},
	}
}

// document collects components and their dependencies.
type document struct {
	release      Release
	components   []cdx.Component
	dependencies []cdx.Dependency
}

// program returns the program at path, and adds its modules to the document.
func (d *document) program(path string) (cdx.Component, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return cdx.Component{}, fmt.Errorf("list the contents of a program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return cdx.Component{}, fmt.Errorf("list the contents of %s: %w", path, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	program := cdx.Component{
		BOMRef: "program:" + filepath.Base(path) + "@sha256:" + sum,
		Type:   cdx.ComponentTypeApplication, Name: filepath.Base(path), Version: d.release.Version, Hashes: hashes(sum),
		PackageURL: "pkg:golang/" + info.Path + "@" + d.release.Version,
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	parts := []string{d.add(library("stdlib", strings.TrimPrefix(info.GoVersion, "go")))}
	for _, module := range info.Deps {
		parts = append(parts, d.add(d.module(module)))
	}
	d.depend(program.BOMRef, parts)
	return program, nil
}

// module returns a module. A module that is replaced by a folder belongs to this repository.
func (d *document) module(m *debug.Module) cdx.Component {
	switch {
	case m.Replace == nil:
		return library(m.Path, m.Version)
	case strings.HasPrefix(m.Replace.Path, "."):
		return library(m.Path, d.release.Version)
	default:
		return library(m.Replace.Path, m.Replace.Version)
	}
}

func library(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}

func hashes(sum string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
}

// add adds a component unless it exists, and returns its reference.
func (d *document) add(c cdx.Component) string {
	if !slices.ContainsFunc(d.components, func(other cdx.Component) bool { return other.BOMRef == c.BOMRef }) {
		d.components = append(d.components, c)
	}
	return c.BOMRef
}

func (d *document) depend(ref string, parts []string) {
	d.dependencies = append(d.dependencies, cdx.Dependency{Ref: ref, Dependencies: &parts})
}

// encode returns the document about subject.
func (d *document) encode(subject cdx.Component) ([]byte, error) {
	slices.SortFunc(d.components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	bom := cdx.NewBOM()
	// Equal subjects have equal documents, so the serial number is derived from the subject's hash, as
	// a UUID of version 8 of RFC 9562.
	id := sha256.Sum256([]byte(subject.BOMRef))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	bom.Metadata = &cdx.Metadata{
		Timestamp: d.release.Time.UTC().Format(time.RFC3339),
		Supplier:  &cdx.OrganizationalEntity{Name: "Outrigger", URL: &[]string{"https://outrigger.dev"}},
		Component: &subject,
	}
	bom.Components, bom.Dependencies = &d.components, &d.dependencies
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}
