{{- /* The policies for the Nodes that an agent writes: with its token, only the fields that the
agent publishes can change, and only on its own Node. Argument: (dict "root" $ "name" … "labels" …
"account" … "manager" the agent's field manager "own" the labels that it may change, as a CEL
expression on the key k). The dict also has, if the agent may change them, "annotations" a list of
their keys, "cordon" true, "taint" the key and effect of the taint that it may remove, and
"condition" the type of the condition. */ -}}

{{- /* The labels that an agent pauses, as a CEL list with the label of the agent itself. The list in Go is in
pkg/nodestate. Argument: (dict "root" $ "own" the label of the agent). */ -}}
{{- define "outrigger.pausedLabels" -}}
{{- $labels := list .own -}}
{{- range list "client" "dcgm" "dcgm-exporter" "device-plugin" "gpu-feature-discovery" "nvsm" }}{{ $labels = append $labels (printf "nvidia.com/gpu.deploy.%s" .) }}{{ end -}}
{{- range .root.Values.env }}{{ if and (eq .name "NODE_LABEL_FOR_GPU_POD_EVICTION") .value }}{{ $labels = append $labels .value }}{{ end }}{{ end -}}
k in ['{{ join "', '" $labels }}']
{{- end -}}

{{- /* Whether two entries of metadata.managedFields have the same owner. Argument: (list "m" "o").
*/ -}}
{{- define "outrigger.sameOwner" -}}
{{- $m := first . }}{{ $o := last . -}}
{{- $same := list -}}
{{- range list "manager" "operation" "subresource" "apiVersion" }}{{ $same = append $same (printf "%s.?%s == %s.?%s" $m . $o .) }}{{ end -}}
{{- join " && " $same -}}
{{- end -}}

{{- /* Whether the entry a of metadata.managedFields has only fields that the entry b has and, if
"mine" is set, fields that the agent writes. Agents share labels, annotations and conditions with
others. All other fields must be equal. Argument: (dict "a" "m" "b" "o" "mine" the arguments of
nodePolicy, or nil). */ -}}
{{- define "outrigger.fieldsIn" -}}
{{- $a := printf "%s.fieldsV1[part]" .a -}}
{{- $b := printf "%s.?fieldsV1[?part].orValue({})" .b -}}
{{- $mine := default dict .mine -}}
({{ .a }}.?fieldsV1 == {{ .b }}.?fieldsV1 || {{ .a }}.?fieldsV1.orValue({}).all(part, {{ $a }}.all(f,
  f in {{ $b }} && {{ $a }}[f] == {{ $b }}[f] ||
{{- if $mine.taint }}
  f == 'f:taints' ||
{{- end }}
{{- if $mine.cordon }}
  f == 'f:unschedulable' ||
{{- end }}
  f in ['f:labels', 'f:annotations', 'f:conditions'] && {{ $a }}[f].all(k,
{{- if .mine }}
    k in variables.ownFields ||
{{- with .mine.condition }}
    k == 'k:{"type":"{{ . }}"}' ||
{{- end }}
{{- if $mine.annotations }}
    k == '.' && f == 'f:annotations' && {{ .a }}.?operation.orValue('') == 'Update' ||
{{- end }}
{{- end }}
    f in {{ $b }} && k in {{ $b }}[f] && {{ $a }}[f][k].all(leaf, leaf in {{ $b }}[f][k])))))
{{- end -}}

{{- /* The other owners that have more fields after a request than before. An apply removes the
fields that its owner has and does not name. A request with an invented owner could therefore remove
fields of others. Kubernetes itself merges owners under two names. */ -}}
{{- define "outrigger.newOwners" -}}
variables.owners.filter(m, m.?manager.orValue('') != '{{ .manager }}' && !(
  variables.oldOwners.exists(o, {{ include "outrigger.sameOwner" (list "m" "o") }} &&
    {{ include "outrigger.fieldsIn" (dict "a" "m" "b" "o" "mine" nil) | indent 4 | trim }}) ||
  m.?manager.orValue('') == 'before-first-apply' && variables.oldOwners.size() == 0 ||
  m.?manager.orValue('') == 'ancient-changes' && m.?operation.orValue('') == 'Update' &&
    m.?fieldsV1.orValue({}).all(part, m.fieldsV1[part].all(f, m.fieldsV1[part][f].all(k,
      variables.oldOwners.exists(o, o.?operation.orValue('') == 'Update' && k in o.?fieldsV1[?part][?f].orValue({}))) &&
      variables.oldOwners.exists(o, o.?operation.orValue('') == 'Update' && f in o.?fieldsV1[?part].orValue({}))))
)).map(m, m.?manager.orValue(''))
{{- end -}}

{{- /* The other owners that lose fields that the agent does not write. */ -}}
{{- define "outrigger.robbedOwners" -}}
variables.oldOwners.filter(o, o.?manager.orValue('') != '{{ .manager }}' && !(
  (variables.owners.filter(m, {{ include "outrigger.sameOwner" (list "m" "o") }} ||
    o.?operation.orValue('') == 'Update' && m.?manager.orValue('') == 'ancient-changes') + [dyn({})]).exists(m,
    {{ include "outrigger.fieldsIn" (dict "a" "o" "b" "m" "mine" .) | indent 4 | trim }})
)).map(o, o.?manager.orValue(''))
{{- end -}}

{{- /* Whether the agent owns only fields that it writes, and fields that it owned before. Its next
apply would remove all other fields, and this policy would reject every such apply. */ -}}
{{- define "outrigger.ownsItsOwn" -}}
variables.owners.all(m, m.?manager.orValue('') != '{{ .manager }}' ||
  (variables.oldOwners.filter(o, {{ include "outrigger.sameOwner" (list "m" "o") }}) + [dyn({})]).exists(o,
    {{ include "outrigger.fieldsIn" (dict "a" "m" "b" "o" "mine" .) | indent 4 | trim }}))
{{- end -}}

{{- /* The fields that the agent may change in a part of a Node, as the end of a message. Argument:
a list of texts. */ -}}
{{- define "outrigger.butFor" -}}
{{- with compact . }}, but for {{ join " and " . }}{{ end -}}
{{- end -}}

{{- define "outrigger.nodePolicy" -}}
{{- $taint := splitn ":" 2 (default "" .taint) -}}
{{- $metadata := list "'labels'" "'managedFields'" "'resourceVersion'" "'generation'" -}}
{{- $spec := list -}}
{{- if .annotations }}{{ $metadata = append $metadata "'annotations'" }}{{ end -}}
{{- if .taint }}{{ $spec = append $spec "'taints'" }}{{ end -}}
{{- if .cordon }}{{ $spec = append $spec "'unschedulable'" }}{{ end -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        operations: [UPDATE]
        resources: [nodes, nodes/status]
  {{- include "outrigger.policySubject" . | nindent 2 }}
  variables:
    {{- include "outrigger.policyNode" . | nindent 4 }}
    - name: labels
      expression: object.metadata.?labels.orValue({})
    - name: oldLabels
      expression: oldObject.metadata.?labels.orValue({})
    - name: changedLabels
      expression: >-
        variables.oldLabels.filter(k, variables.labels[?k] != variables.oldLabels[?k]) +
        variables.labels.filter(k, !(k in variables.oldLabels))
    # The labels{{ if .annotations }} and annotations{{ end }} that the agent may change, as metadata.managedFields names them.
    - name: ownFields
      expression: |-
        (variables.oldLabels.map(k, k) + variables.labels.map(k, k)).filter(k,
        {{- .own | nindent 8 }}
        ).map(k, 'f:' + k)
        {{- with .annotations }} + ['f:{{ join "', 'f:" . }}']{{ end }}
    - name: othersLabels
      expression: variables.changedLabels.filter(k, !('f:' + k in variables.ownFields))
    # Maps, because a CEL expression can list the keys of a map, including fields of later versions
    # of Kubernetes.
    - name: old
      expression: dyn(oldObject)
    - name: new
      expression: dyn(object)
    {{- if .annotations }}
    - name: othersAnnotations
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata.?annotations" (printf "'%s'" (join "', '" .annotations))) | nindent 8 }}
    {{- end }}
    # Besides the labels{{ if .annotations }} and annotations{{ end }}, these change with every request.
    - name: metadata
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata" (join ", " $metadata)) | nindent 8 }}
    - name: owners
      expression: variables.new.metadata.?managedFields.orValue([])
    - name: oldOwners
      expression: variables.old.metadata.?managedFields.orValue([])
    - name: newOwners
      expression: |-
        {{- include "outrigger.newOwners" . | nindent 8 }}
    - name: robbedOwners
      expression: |-
        {{- include "outrigger.robbedOwners" . | nindent 8 }}
    - name: spec
      expression: |-
        {{- include "outrigger.changedFields" (list "spec" (join ", " $spec)) | nindent 8 }}
    - name: status
      expression: |-
        {{- include "outrigger.changedFields" (list "status" (.condition | empty | ternary "" "'conditions'")) | nindent 8 }}
    {{- if .taint }}
    - name: taints
      expression: object.?spec.?taints.orValue([])
    - name: oldTaints
      expression: oldObject.?spec.?taints.orValue([])
    {{- end }}
    {{- if .condition }}
    - name: conditions
      expression: object.?status.?conditions.orValue([]).filter(c, c.type != '{{ .condition }}')
    - name: oldConditions
      expression: oldObject.?status.?conditions.orValue([]).filter(c, c.type != '{{ .condition }}')
    {{- end }}
  validations:
    {{- include "outrigger.policyBound" . | nindent 4 }}
    - expression: object.metadata.name == variables.node
      messageExpression: "'the agent on node ' + variables.node + ' does not write to other Nodes'"
    # Kubernetes uses the plain message if the expression is too long.
    - expression: variables.othersLabels.size() == 0
      message: the agent may not change these labels
      messageExpression: "'the agent may not change these labels: ' + variables.othersLabels.join(', ')"
    # A Node has the labels of each kind of MIG device.
    - expression: variables.ownFields.size() <= 512
      message: the agent writes at most 512 labels
    {{- if .annotations }}
    - expression: >-
        ['{{ join "', '" .annotations }}'].all(k, object.metadata.?annotations[?k].orValue('').size() <= 1024)
      message: the agent writes annotations of at most 1024 characters
    - expression: variables.othersAnnotations.size() == 0
      message: the agent may not change these annotations
      messageExpression: "'the agent may not change these annotations: ' + variables.othersAnnotations.join(', ')"
    {{- end }}
    - expression: variables.metadata.size() == 0
      messageExpression: "'the agent changes only labels{{ if .annotations }} and annotations{{ end }} in the metadata, not ' + variables.metadata.join(', ')"
    - expression: variables.newOwners.size() == 0
      messageExpression: "'the agent writes under the name {{ .manager }}, and may not assign fields to ' + variables.newOwners.join(', ')"
    - expression: variables.robbedOwners.size() == 0
      messageExpression: "'the agent takes over only fields that it writes, no other fields of ' + variables.robbedOwners.join(', ')"
    - expression: |-
        {{- include "outrigger.ownsItsOwn" . | nindent 8 }}
      message: the agent takes ownership only of fields that it writes
    - expression: variables.spec.size() == 0
      messageExpression: "'the agent does not change the spec of a Node{{ include "outrigger.butFor" (list (.taint | empty | ternary "" (printf "the taint %s" .taint)) (.cordon | empty | ternary "" "its cordon")) }}: ' + variables.spec.join(', ')"
    {{- if .taint }}
    - expression: >-
        variables.taints.all(t, t in variables.oldTaints) &&
        variables.oldTaints.all(t, t in variables.taints || t.key == '{{ $taint._0 }}' && t.effect == '{{ $taint._1 }}')
      message: the agent removes the taint {{ .taint }}, and neither adds nor changes any other
    {{- end }}
    - expression: variables.status.size() == 0
      messageExpression: "'the agent does not change the status of a Node{{ include "outrigger.butFor" (list (.condition | empty | ternary "" (printf "the condition %s" .condition))) }}: ' + variables.status.join(', ')"
    {{- if .condition }}
    - expression: >-
        object.?status.?conditions.orValue([]).filter(c, c.type == '{{ .condition }}').all(c,
          c.?message.orValue('').size() <= 1024 && c.?reason.orValue('').size() <= 128)
      message: the agent writes the condition {{ .condition }} with a message of at most 1024 characters
    # Kubernetes permits several conditions of one type.
    - expression: >-
        variables.conditions.size() == variables.oldConditions.size() &&
        variables.conditions.all(c, c in variables.oldConditions) &&
        variables.oldConditions.all(c, c in variables.conditions) &&
        object.?status.?conditions.orValue([]).size() <= variables.conditions.size() + 1
      message: the agent writes only the condition {{ .condition }}
    {{- end }}
{{- end -}}
