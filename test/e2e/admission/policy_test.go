// Package admission_test asks the admission policies that the charts render what
// they allow, in CEL, as the API server does. The tests of the cluster ask the API
// server itself; here is room for every way around.
package admission_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/charts/chartstest"
)

// fields is a part of a JSON object.
type fields = map[string]any

// golden is the folder of what the charts render.
const golden = "../../../charts/testdata/"

// The names of the policies there.
const (
	ofLabels       = "outrigger-feature-discovery.gpu-operator-resources"
	ofPresence     = "outrigger-feature-discovery-presence.gpu-operator-resources"
	ofNodeFeatures = "nodefeatures." + ofLabels
	ofSlices       = "outrigger-dra-plugin.gpu-operator-resources"
)

// policy is a ValidatingAdmissionPolicy, as far as it is expressions.
type policy struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		MatchConditions []struct{ Expression string }
		Variables       []struct{ Name, Expression string }
		Validations     []struct{ Expression, Message, MessageExpression string }
	}
}

// load returns a policy in a golden file.
func load(t *testing.T, file, name string) policy {
	t.Helper()
	data, err := os.ReadFile(golden + file)
	if err != nil {
		t.Fatal(err)
	}
	return find(t, string(data), name)
}

// render returns a policy of a chart with the values of a variant, whose golden file does not have all objects.
func render(t *testing.T, chart, variant, name string) policy {
	t.Helper()
	text, err := os.ReadFile(golden + chart + "/" + variant + ".values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	c, err := charts.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	out, err := charts.Render(c, charts.Release{Name: "outrigger", Namespace: "gpu-operator-resources", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	return find(t, out, name)
}

// find returns the policy with a name from rendered objects.
func find(t *testing.T, objects, name string) policy {
	t.Helper()
	for document := range strings.SplitSeq("\n"+objects, "\n---\n") {
		var p policy
		if err := yaml.Unmarshal([]byte(document), &p); err != nil {
			t.Fatal(err)
		}
		if p.Kind == "ValidatingAdmissionPolicy" && p.Metadata.Name == name {
			return p
		}
	}
	t.Fatalf("there is no policy %s", name)
	return policy{}
}

// request is a change that somebody asks for. Without an old object it is made,
// without a new one it is removed.
type request struct {
	// account is that of the token, in is its namespace if it is not the agents', and bound the node
	// that it is bound to.
	account, in, bound string
	// namespace, resource and name are those of the object.
	namespace, resource, subresource, name string
	old, new                               fields
}

// operation is what the API server calls the change.
func (r request) operation() string {
	switch {
	case r.old == nil:
		return "CREATE"
	case r.new == nil:
		return "DELETE"
	default:
		return "UPDATE"
	}
}

// known returns what policies see of the request: an empty string is absent.
func (r request) known(user fields) fields {
	out := fields{
		"userInfo": user, "operation": r.operation(), "namespace": r.namespace, "name": r.name,
		"resource": fields{"resource": r.resource}, "subResource": r.subresource,
	}
	maps.DeleteFunc(out, func(_ string, value any) bool { return value == "" })
	return out
}

// environment has the names that expressions of policies see.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(cel.OptionalTypes(), ext.Strings(),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)))
})

// compiled has the program of each expression: the expression with all keys takes a second to compile.
var compiled = map[string]cel.Program{}

// compile returns the program of an expression.
func compile(t *testing.T, expression string) cel.Program {
	t.Helper()
	if program, found := compiled[expression]; found {
		return program
	}
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	if compiled[expression], err = env.Program(ast); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return compiled[expression]
}

// evaluate returns a function that evaluates expressions of a policy for a request, and the variables that they see.
func evaluate(t *testing.T, r request) (eval func(expression string) (any, error), variables fields) {
	t.Helper()
	user := fields{"username": "system:serviceaccount:" + cmp.Or(r.in, "gpu-operator-resources") + ":" + r.account}
	if r.bound != "" {
		user["extra"] = fields{"authentication.kubernetes.io/node-name": []string{r.bound}}
	}
	variables = fields{}
	known := fields{
		"object": nil, "oldObject": nil, "variables": variables,
		"request": r.known(user),
	}
	if r.new != nil {
		known["object"] = r.new
	}
	if r.old != nil {
		known["oldObject"] = r.old
	}
	return func(expression string) (any, error) {
		value, _, err := compile(t, expression).Eval(known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		return value.Value(), nil
	}, variables
}

// matches reports whether a policy is for a request.
func (p policy) matches(t *testing.T, r request) bool {
	t.Helper()
	eval, _ := evaluate(t, r)
	for _, c := range p.Spec.MatchConditions {
		is, err := eval(c.Expression)
		if err != nil {
			t.Fatalf("it is not known whether the policy is for this request: %v", err)
		}
		if is != true {
			return false
		}
	}
	return true
}

// denials returns why a policy denies a request; an expression that fails denies it too
// (failurePolicy: Fail).
func (p policy) denials(t *testing.T, r request) []string {
	t.Helper()
	if !p.matches(t, r) {
		t.Fatal("the policy is not for this request")
	}
	eval, variables := evaluate(t, r)
	for _, v := range p.Spec.Variables {
		var err error
		if variables[v.Name], err = eval(v.Expression); err != nil {
			t.Fatal(err)
		}
	}
	var denied []string
	for _, v := range p.Spec.Validations {
		switch allowed, err := eval(v.Expression); {
		case err != nil:
			denied = append(denied, err.Error())
		case allowed == true:
		case v.MessageExpression != "":
			message, err := eval(v.MessageExpression)
			if err != nil {
				t.Error(err)
			}
			denied = append(denied, fmt.Sprint(message))
		default:
			denied = append(denied, v.Message)
		}
	}
	return denied
}

// check compares the denials of a policy with the expected one: want has words of it, and
// is empty for what is allowed.
func (p policy) check(t *testing.T, r request, want string) {
	t.Helper()
	denied := p.denials(t, r)
	if want == "" && len(denied) > 0 || want != "" && (len(denied) != 1 || !strings.Contains(denied[0], want)) {
		t.Errorf("it is denied for %q, want %q", denied, want)
	}
}

// with returns a copy of an object that is changed.
func with(t *testing.T, object fields, change func(fields)) fields {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out fields
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(out)
	}
	return out
}

// part returns what stands at a path of an object.
func part(o fields, path ...string) fields {
	for _, name := range path {
		o = o[name].(fields)
	}
	return o
}
