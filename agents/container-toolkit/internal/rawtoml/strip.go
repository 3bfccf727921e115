package rawtoml

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Strip reverts the changes of Set and AddTables in a document. It keeps all other text, even if
// it was edited since. It returns an error if marks are damaged.
func Strip(text []byte) ([]byte, error) {
	out, err := stripBlocks(text)
	if err != nil {
		return nil, err
	}
	return stripLines(out)
}

func stripBlocks(text []byte) ([]byte, error) {
	for {
		from := lineIndex(text, blockBegin, 0)
		if from < 0 {
			return text, nil
		}
		last := lineIndex(text, blockEnd, from)
		if last < 0 {
			return nil, fmt.Errorf("line %d: the lines that nvidia-container-toolkit added begin here, but their end, %q, is missing: remove them by hand",
				bytes.Count(text[:from], []byte("\n"))+1, blockEnd)
		}
		text = cutLines(text, from, lineEnd(text, last))
	}
}

// lineIndex returns the offset of the line that begins with prefix, at or after from.
func lineIndex(text []byte, prefix string, from int) int {
	for at := from; at < len(text); at = lineEnd(text, at) {
		if bytes.HasPrefix(text[at:], []byte(prefix)) {
			return at
		}
	}
	return -1
}

// cutLines removes whole lines. It reverts insertLine.
func cutLines(text []byte, from, to int) []byte {
	if to == len(text) && from > 0 && text[to-1] != '\n' {
		from--
	}
	return slices.Concat(text[:from], text[to:])
}

// stripLines reverts the changes of single lines.
func stripLines(text []byte) ([]byte, error) {
	if !bytes.Contains(text, []byte(addedMark)) {
		return text, nil
	}
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(d.entries) {
		if e.header {
			continue
		}
		// If the next line was removed, so was the line break of this line.
		e.end = min(e.end, len(text))
		eol := e.end - len(lineBreak(text[:e.end]))
		comment := string(text[e.valueEnd:eol])
		if strings.HasSuffix(comment, addedMark) {
			text = cutLines(text, e.start, e.end)
		} else if i := strings.LastIndex(comment, changedMark); i >= 0 {
			old := comment[i+len(changedMark):]
			text = slices.Concat(text[:e.value], []byte(old), text[e.valueEnd:e.valueEnd+i], text[eol:])
		}
	}
	return text, nil
}

// RemoveFromList reverts AddToList for a string that was added to an array.
func RemoveFromList(text []byte, path []string, value string) ([]byte, error) {
	d, err := Parse(text)
	if err != nil {
		return nil, err
	}
	e := d.find(path)
	if e == nil {
		return text, nil
	}
	for i, el := range e.elements {
		switch {
		case el.text != value:
			continue
		case i > 0:
			return slices.Concat(text[:e.elements[i-1].end], text[el.end:]), nil
		case len(e.elements) > 1:
			return slices.Concat(text[:el.start], text[e.elements[1].start:]), nil
		default:
			return slices.Concat(text[:el.start], text[el.end:]), nil
		}
	}
	return text, nil
}
