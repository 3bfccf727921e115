package cluster

import (
	"slices"
	"strings"
)

// placement is the part of a pod template that selects nodes (API reference, PodSpec).
type placement struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     struct {
		NodeAffinity struct {
			Required *struct {
				Terms []term `json:"nodeSelectorTerms"`
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		} `json:"nodeAffinity"`
	} `json:"affinity"`
}

// term is a NodeSelectorTerm.
type term struct {
	Expressions []requirement `json:"matchExpressions"`
	Fields      []requirement `json:"matchFields"`
}

// requirement is a NodeSelectorRequirement.
type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// selectors returns label selectors in the syntax of the API. The pods run on each node that one of
// the selectors matches. Without selectors, they run on no node. The result is false if label
// selectors cannot express the placement.
func (p placement) selectors() ([]string, bool) {
	var always []string
	for key, value := range p.NodeSelector {
		always = append(always, key+"="+value)
	}
	required := p.Affinity.NodeAffinity.Required
	if required == nil {
		return []string{strings.Join(always, ",")}, true
	}
	var all []string
	for _, t := range required.Terms {
		if len(t.Fields) > 0 {
			return nil, false
		}
		if len(t.Expressions) == 0 {
			continue // It selects no node.
		}
		parts := slices.Clip(always)
		for _, r := range t.Expressions {
			part, ok := r.selector()
			if !ok {
				return nil, false
			}
			parts = append(parts, part)
		}
		all = append(all, strings.Join(parts, ","))
	}
	return all, true
}

// selector returns a requirement in the syntax of the API, and false for an unknown operator.
func (r requirement) selector() (string, bool) {
	values := strings.Join(r.Values, ",")
	switch r.Operator {
	case "In":
		return r.Key + " in (" + values + ")", true
	case "NotIn":
		return r.Key + " notin (" + values + ")", true
	case "Exists":
		return r.Key, true
	case "DoesNotExist":
		return "!" + r.Key, true
	case "Gt":
		return r.Key + ">" + values, true
	case "Lt":
		return r.Key + "<" + values, true
	}
	return "", false
}
