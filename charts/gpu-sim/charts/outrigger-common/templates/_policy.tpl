{{- /* The service account that a policy applies to. Argument: (dict "root" $ "account" …). */ -}}
{{- define "outrigger.policySubject" -}}
matchConditions:
  - name: is-the-agent
    expression: request.userInfo.username == 'system:serviceaccount:{{ include "outrigger.namespace" .root }}:{{ .account }}'
{{- end -}}

{{- define "outrigger.policyNode" -}}
# The token of a pod has the name of its node.
- name: node
  expression: request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][0].orValue('')
{{- end -}}

{{- define "outrigger.policyBound" -}}
- expression: variables.node != ''
  message: this token is not bound to a node, and the agent writes only objects of its own node
{{- end -}}

{{- /* A finalizer would block the deletion of the object and of its namespace. */ -}}
{{- define "outrigger.policyNoFinalizer" -}}
- expression: >-
    request.operation == 'DELETE' || object.metadata.?finalizers.orValue([]).all(f,
      oldObject != null && f in oldObject.metadata.?finalizers.orValue([]))
  message: the agent adds no finalizers
{{- end -}}

{{- /* A client can send metadata.managedFields of any size. The variable new is the object, as a map.
Argument: (dict "managers" the most entries, "parts" the most parts of an object, "fields" the most fields
of a part, "leaves" the most fields of the field b of the part a, "key" the most characters of their names). */ -}}
{{- define "outrigger.policyOwners" -}}
- expression: >-
    variables.new.metadata.?managedFields.orValue([]).size() <= {{ .managers }} &&
    variables.new.metadata.?managedFields.orValue([]).all(m, m.?fieldsV1.orValue({}).size() <= {{ .parts }} &&
      m.?fieldsV1.orValue({}).all(a, a.size() <= 64 && m.fieldsV1[a].size() <= {{ .fields }} &&
        m.fieldsV1[a].all(b, b.size() <= 64 && m.fieldsV1[a][b].size() <= ({{ .leaves }}) &&
          m.fieldsV1[a][b].all(c, c.size() <= {{ .key }} && m.fieldsV1[a][b][c].size() == 0))))
  message: the agent sends no metadata.managedFields
{{- end -}}

{{- define "outrigger.policyShortReferences" -}}
- expression: >-
    variables.new.metadata.?ownerReferences.orValue([]).size() <= 4 &&
    variables.new.metadata.?ownerReferences.orValue([]).all(o,
      [o.?apiVersion, o.?kind, o.?name, o.?uid].all(v, v.orValue('').size() <= 253))
  message: the agent sends at most 4 owners, with short fields
{{- end -}}

{{- define "outrigger.policyNew" -}}
# A map, because a CEL expression can list the keys of a map.
- name: new
  expression: dyn(object)
{{- end -}}

{{- /* The sizes of the fields of an Event that other rules leave free. The variable about is its
involvedObject. */ -}}
{{- define "outrigger.policyEventSize" -}}
# The API server keeps Events for an hour, and an Event can have a megabyte.
- expression: >-
    object.?message.orValue('').size() <= 1024 &&
    [object.?reason, object.?action, object.?type, variables.about.?uid, variables.about.?apiVersion, variables.about.?resourceVersion,
      variables.about.?fieldPath].all(v, v.orValue('').size() <= 128) &&
    variables.new.metadata.all(f, f in ['name', 'generateName', 'namespace', 'uid', 'creationTimestamp', 'resourceVersion', 'finalizers', 'managedFields'])
  message: the agent sends Events of at most 1024 characters, with short fields, without labels, annotations and owners
{{ include "outrigger.policyOwners" (dict "managers" 2 "parts" 16 "fields" 16 "leaves" "0" "key" 0) }}
{{- end -}}

{{- /* The names of the fields that a request changes in a part of an object, with exceptions. The
variables old and new are the object, as maps. Argument: (list the part, such as "spec", and the
exceptions, such as "'taints'"). */ -}}
{{- define "outrigger.changedFields" -}}
{{- $old := printf "variables.old.?%s.orValue({})" (first .) -}}
{{- $new := printf "variables.new.?%s.orValue({})" (first .) -}}
({{ $old }}.filter(f, {{ $new }}[?f] != {{ $old }}[?f]) +
 {{ $new }}.filter(f, !(f in {{ $old }}))).filter(f, !(f in [{{ last . }}]))
{{- end -}}

{{- /* Binds a policy. Argument: (dict "name" … "labels" …). */ -}}
{{- define "outrigger.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end -}}

{{- /* Whether there is a policy for Events: the agent sends them, and the cluster has
policies. */ -}}
{{- define "outrigger.eventPolicies" -}}
{{- $events := default dict .Values.events -}}
{{- if and $events.enabled .Values.admissionPolicy.create (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end -}}
{{- end -}}

{{- /* The policy for the Events of an account, with its binding. Argument: (dict "root" $ "account"
… "agent" its name in Events). */ -}}
{{- define "outrigger.eventPolicy" -}}
{{- $name := printf "events.%s" (include "outrigger.rbacName" .root) -}}
{{- $labels := include "outrigger.labels" .root -}}
# An Event is a message to people. With a token stolen from one node, it must not be possible to
# send Events about other objects, or under the name of other programs.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE, UPDATE]
        resources: [events]
  {{- include "outrigger.policySubject" . | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: about
      expression: object.involvedObject
    {{- include "outrigger.policyNew" . | nindent 4 }}
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: >-
        variables.about.?kind.orValue('') == 'Node' && variables.about.?name.orValue('') == variables.node &&
        variables.about.?namespace.orValue('') == '' && !has(object.related) &&
        object.metadata.namespace == 'default' && object.metadata.name.startsWith(variables.node + '.')
      messageExpression: "'the agent on node ' + variables.node + ' sends Events about its own Node only'"
    - expression: >-
        object.?source.?component.orValue('') == '{{ .agent }}' && object.?source.?host.orValue('') == variables.node &&
        object.?reportingComponent.orValue('') == '{{ .agent }}' && object.?reportingInstance.orValue('') == variables.node
      message: the agent sends Events in its own name, {{ .agent }}, only
    {{- include "outrigger.policyEventSize" . | nindent 4 }}
    {{- include "outrigger.policyNoFinalizer" . | nindent 4 }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}

{{- /* The policy for the evictions of an account, with its binding. Argument: (dict "root" $
"account" … "spared" a namespace whose pods must not be evicted). */ -}}
{{- define "outrigger.evictionPolicy" -}}
{{- $name := printf "evictions.%s" (include "outrigger.rbacName" .root) -}}
{{- $labels := include "outrigger.labels" .root -}}
# A policy cannot read the evicted pod, and therefore not its node. The UID is required, so that a
# token cannot evict pods by guessed names: the caller has to read the pod first.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ $name }}
  labels:
    {{- $labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [CREATE]
        resources: [pods/eviction]
  {{- include "outrigger.policySubject" (dict "root" .root "account" .account) | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" .root | nindent 4 }}
    # A map, because the types of two versions of evictions differ.
    - name: options
      expression: dyn(object).?deleteOptions.orValue({})
  validations:
    {{- include "outrigger.policyBound" .root | nindent 4 }}
    - expression: variables.options.?preconditions.?uid.orValue('') != ''
      message: the agent evicts a pod by its uid only, in deleteOptions.preconditions
    - expression: variables.options.all(f, f in ['apiVersion', 'kind', 'preconditions', 'dryRun'])
      message: the agent evicts pods as they ask for, without a grace period or propagation of its own
    {{- with .spared }}
    - expression: request.namespace != '{{ . }}'
      message: the agent evicts no pod of {{ . }}
    {{- end }}
---
{{ include "outrigger.policyBinding" (dict "name" $name "labels" $labels) }}
{{- end -}}
