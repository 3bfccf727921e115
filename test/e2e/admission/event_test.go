package admission_test

import (
	"slices"
	"strings"
	"testing"
)

func event(agent string) fields {
	return fields{
		"metadata":       fields{"name": "n1.7k2px", "namespace": "default"},
		"involvedObject": fields{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"},
		"type":           "Warning", "reason": "GPUUnhealthy", "message": "m", "count": 1,
		"source":             fields{"component": agent, "host": "n1"},
		"reportingComponent": agent, "reportingInstance": "n1",
	}
}

// managed returns metadata.managedFields with one entry, which has a field.
func managed(field string) []any {
	return []any{fields{"manager": "agent", "operation": "Update", "fieldsV1": fields{field: fields{"f:host": fields{}}}}}
}

func TestEventsAreAboutTheOwnNodeInTheOwnName(t *testing.T) {
	const (
		ownNode = "the agent on node n1 sends Events about its own Node only"
		ownName = "the agent sends Events in its own name, "
		short   = "the agent sends Events of at most 1024 characters, with short fields, without labels, annotations and owners"
		owners  = "the agent sends no metadata.managedFields"
	)
	at := func(value any, name string, path ...string) func(fields) {
		return func(o fields) { part(o, path...)[name] = value }
	}
	for _, agent := range []string{"device-plugin", "feature-discovery", "driver-loader", "mig-manager"} {
		p := load(t, agent+"/defaults.golden", "events.outrigger-"+agent+".gpu-operator-resources")
		for name, c := range map[string]change{
			"an Event of the agent":                 {},
			"about another Node":                    {at("n2", "name", "involvedObject"), ownNode},
			"about a pod":                           {at("Pod", "kind", "involvedObject"), ownNode},
			"about an object of a tenant":           {at("tenant", "namespace", "involvedObject"), ownNode},
			"about nothing":                         {func(o fields) { o["involvedObject"] = fields{} }, ownNode},
			"about something more":                  {func(o fields) { o["related"] = fields{"kind": "Pod", "name": "x"} }, ownNode},
			"in another namespace":                  {at("kube-system", "namespace", "metadata"), ownNode},
			"with the name of another's":            {at("n2.7k2px", "name", "metadata"), ownNode},
			"of the kubelet":                        {at("kubelet", "component", "source"), ownName + agent},
			"of another host":                       {at("n2", "host", "source"), ownName + agent},
			"of no source":                          {func(o fields) { delete(o, "source") }, ownName + agent},
			"of another controller":                 {func(o fields) { o["reportingComponent"] = "kubelet" }, ownName + agent},
			"of another instance":                   {func(o fields) { o["reportingInstance"] = "n2" }, ownName + agent},
			"with all it has to say":                {of: func(o fields) { o["message"] = strings.Repeat("ä", 1024) }},
			"with more":                             {func(o fields) { o["message"] = strings.Repeat("m", 1025) }, short},
			"with a long reason":                    {func(o fields) { o["reason"] = strings.Repeat("R", 129) }, short},
			"with a long action":                    {func(o fields) { o["action"] = strings.Repeat("a", 129) }, short},
			"with an annotation":                    {at(fields{"a": "b"}, "annotations", "metadata"), short},
			"with a label":                          {at(fields{"a": "b"}, "labels", "metadata"), short},
			"with a long type":                      {func(o fields) { o["type"] = strings.Repeat("T", 129) }, short},
			"with a long field path":                {at(strings.Repeat("p", 129), "fieldPath", "involvedObject"), short},
			"with a long uid":                       {at(strings.Repeat("u", 129), "uid", "involvedObject"), short},
			"with a long version":                   {at(strings.Repeat("v", 129), "resourceVersion", "involvedObject"), short},
			"with a long API version":               {at(strings.Repeat("v", 129), "apiVersion", "involvedObject"), short},
			"with an owner":                         {at([]any{fields{"kind": strings.Repeat("k", 1<<20)}}, "ownerReferences", "metadata"), short},
			"with a name that the API server makes": {of: at("n1.", "generateName", "metadata")},
			"as the API server keeps it":            {of: at(managed("f:source"), "managedFields", "metadata")},
			"with many owners of fields":            {at(slices.Repeat(managed("f:a"), 3), "managedFields", "metadata"), owners},
			"with long names of fields":             {at(managed(strings.Repeat("f", 65)), "managedFields", "metadata"), owners},
			"it cannot go":                          {at([]any{"a.b/c"}, "finalizers", "metadata"), "adds no finalizers"},
		} {
			t.Run(agent+"/"+name, func(t *testing.T) {
				p.check(t, request{account: "outrigger-" + agent, bound: "n1", new: with(t, event(agent), c.of)}, c.want)
			})
		}
		if denied := p.denials(t, request{account: "outrigger-" + agent, bound: "n2", new: event(agent)}); len(denied) != 2 {
			t.Errorf("a token of another node is denied for %q", denied)
		}
	}
}
