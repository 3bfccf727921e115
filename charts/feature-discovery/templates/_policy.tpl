{{- /* The labels of each part, as an expression about the key k. The agent has the
same in agents/feature-discovery/internal/label, and a test there compares both. */ -}}
{{- define "feature-discovery.ownLabel" -}}
k in [
  'nvidia.com/gfd.timestamp',
  'nvidia.com/cuda.driver.major', 'nvidia.com/cuda.driver.minor', 'nvidia.com/cuda.driver.rev',
  'nvidia.com/cuda.driver-version.full', 'nvidia.com/cuda.driver-version.major',
  'nvidia.com/cuda.driver-version.minor', 'nvidia.com/cuda.driver-version.revision',
  'nvidia.com/cuda.runtime.major', 'nvidia.com/cuda.runtime.minor',
  'nvidia.com/cuda.runtime-version.full', 'nvidia.com/cuda.runtime-version.major', 'nvidia.com/cuda.runtime-version.minor',
  'nvidia.com/gpu.clique', 'nvidia.com/gpu.machine', 'nvidia.com/gpu.mode',
  'nvidia.com/mig.capable', 'nvidia.com/mig.strategy', 'nvidia.com/mps.capable',
  'nvidia.com/vgpu.present', 'nvidia.com/vgpu.host-driver-version', 'nvidia.com/vgpu.host-driver-branch'
] ||
k.matches('^nvidia[.]com/gpu[.](compute[.](major|minor)|count|engines[.](copy|decoder|encoder|jpeg|ofa)|family|memory|multiprocessors|product|replicas|sharing-strategy|slices[.](ci|gi))$') ||
k.matches('^nvidia[.]com/gpu[.]product-.+[.](compute[.](major|minor)|count|family|memory|replicas|sharing-strategy)$') ||
k.matches('^nvidia[.]com/mig-([1-9]c[.])?[1-9]g[.][1-9][0-9]{0,3}gb([.]me|[.]me[.]all|[.]gfx|-me)?[.](count|engines[.](copy|decoder|encoder|jpeg|ofa)|memory|multiprocessors|product|replicas|sharing-strategy|slices[.](ci|gi))$')
{{- end -}}

{{- define "feature-discovery.presenceOwnLabel" -}}
k in [
  'nvidia.com/gpu.present',
  'feature.node.kubernetes.io/pci-10de.present',
  'feature.node.kubernetes.io/kernel-version.full',
  'feature.node.kubernetes.io/system-os_release.ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID',
  'feature.node.kubernetes.io/system-os_release.VERSION_ID.major',
  'feature.node.kubernetes.io/system-os_release.OSTREE_VERSION'
]
{{- end -}}

{{- /* Whether two entries of metadata.managedFields are of one owner, of (list "m" "o"). */ -}}
{{- define "feature-discovery.sameOwner" -}}
{{- $m := first . }}{{ $o := last . -}}
{{- $same := list -}}
{{- range list "manager" "operation" "subresource" "apiVersion" }}{{ $same = append $same (printf "%s.?%s == %s.?%s" $m . $o .) }}{{ end -}}
{{- join " && " $same -}}
{{- end -}}

{{- /* Whether the entry a of metadata.managedFields has only fields that the entry b has
and, if "mine" is set, those that the agent writes: of (dict "a" "m" "b" "o" "mine" the
arguments of nodePolicy, or nil). Agents share labels and conditions with others. Of
all other fields an entry has the same, or fails. */ -}}
{{- define "feature-discovery.fieldsIn" -}}
{{- $a := printf "%s.fieldsV1[part]" .a -}}
{{- $b := printf "%s.?fieldsV1[?part].orValue({})" .b -}}
({{ .a }}.?fieldsV1 == {{ .b }}.?fieldsV1 || {{ .a }}.?fieldsV1.orValue({}).all(part, {{ $a }}.all(f,
  f in {{ $b }} && {{ $a }}[f] == {{ $b }}[f] ||
{{- if and .mine .mine.taint }}
  f == 'f:taints' ||
{{- end }}
  f in ['f:labels', 'f:conditions'] && {{ $a }}[f].all(k,
{{- if .mine }}
    k in variables.ownFields ||
{{- with .mine.condition }}
    k == 'k:{"type":"{{ . }}"}' ||
{{- end }}
{{- end }}
    f in {{ $b }} && k in {{ $b }}[f] && {{ $a }}[f][k].all(leaf, leaf in {{ $b }}[f][k])))))
{{- end -}}

{{- /* The other owners that have more fields after a request than before. Whoever applies
to a Node removes what he owns and does not name, so a made-up owner would take from
others. Kubernetes itself puts owners together under two names. */ -}}
{{- define "feature-discovery.newOwners" -}}
variables.owners.filter(m, m.?manager.orValue('') != '{{ .manager }}' && !(
  variables.oldOwners.exists(o, {{ include "feature-discovery.sameOwner" (list "m" "o") }} &&
    {{ include "feature-discovery.fieldsIn" (dict "a" "m" "b" "o" "mine" nil) | indent 4 | trim }}) ||
  m.?manager.orValue('') == 'before-first-apply' && variables.oldOwners.size() == 0 ||
  m.?manager.orValue('') == 'ancient-changes' && m.?operation.orValue('') == 'Update' &&
    m.?fieldsV1.orValue({}).all(part, m.fieldsV1[part].all(f, m.fieldsV1[part][f].all(k,
      variables.oldOwners.exists(o, o.?operation.orValue('') == 'Update' && k in o.?fieldsV1[?part][?f].orValue({}))) &&
      variables.oldOwners.exists(o, o.?operation.orValue('') == 'Update' && f in o.?fieldsV1[?part].orValue({}))))
)).map(m, m.?manager.orValue(''))
{{- end -}}

{{- /* The other owners that have lost fields that the agent does not write. */ -}}
{{- define "feature-discovery.robbedOwners" -}}
variables.oldOwners.filter(o, o.?manager.orValue('') != '{{ .manager }}' && !(
  (variables.owners.filter(m, {{ include "feature-discovery.sameOwner" (list "m" "o") }} ||
    o.?operation.orValue('') == 'Update' && m.?manager.orValue('') == 'ancient-changes') + [dyn({})]).exists(m,
    {{ include "feature-discovery.fieldsIn" (dict "a" "o" "b" "m" "mine" .) | indent 4 | trim }})
)).map(o, o.?manager.orValue(''))
{{- end -}}

{{- /* Whether the agent owns only what it writes, and what it owned before: its next apply
would remove all else, which this policy rejects for ever. */ -}}
{{- define "feature-discovery.ownsItsOwn" -}}
variables.owners.all(m, m.?manager.orValue('') != '{{ .manager }}' ||
  (variables.oldOwners.filter(o, {{ include "feature-discovery.sameOwner" (list "m" "o") }}) + [dyn({})]).exists(o,
    {{ include "feature-discovery.fieldsIn" (dict "a" "m" "b" "o" "mine" .) | indent 4 | trim }}))
{{- end -}}

{{- /* The policy for Nodes, of (dict "root" $ "name" … "labels" … "account" …
"manager" its name as an owner of fields "own" the labels that it may change "taint"
and "condition" what else it may, or ""). */ -}}
{{- define "feature-discovery.nodePolicy" -}}
{{- $taint := splitn ":" 2 .taint -}}
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
    # The labels that the agent may change, as metadata.managedFields names them.
    - name: ownFields
      expression: |-
        (variables.oldLabels.map(k, k) + variables.labels.map(k, k)).filter(k,
        {{- .own | nindent 8 }}
        ).map(k, 'f:' + k)
    - name: othersLabels
      expression: variables.changedLabels.filter(k, !('f:' + k in variables.ownFields))
    # As maps, because maps can be listed, including fields that later versions of
    # Kubernetes add.
    - name: old
      expression: dyn(oldObject)
    - name: new
      expression: dyn(object)
    # Besides the labels, these change with every request.
    - name: metadata
      expression: |-
        {{- include "outrigger.changedFields" (list "metadata" "'labels', 'managedFields', 'resourceVersion', 'generation'") | nindent 8 }}
    - name: owners
      expression: variables.new.metadata.?managedFields.orValue([])
    - name: oldOwners
      expression: variables.old.metadata.?managedFields.orValue([])
    - name: newOwners
      expression: |-
        {{- include "feature-discovery.newOwners" . | nindent 8 }}
    - name: robbedOwners
      expression: |-
        {{- include "feature-discovery.robbedOwners" . | nindent 8 }}
    - name: spec
      expression: |-
        {{- include "outrigger.changedFields" (list "spec" (.taint | empty | ternary "" "'taints'")) | nindent 8 }}
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
    - expression: variables.metadata.size() == 0
      messageExpression: "'the agent changes only labels in the metadata, not ' + variables.metadata.join(', ')"
    - expression: variables.newOwners.size() == 0
      messageExpression: "'the agent writes under the name {{ .manager }}, and may not assign fields to ' + variables.newOwners.join(', ')"
    - expression: variables.robbedOwners.size() == 0
      messageExpression: "'the agent takes over only fields that it writes, no other fields of ' + variables.robbedOwners.join(', ')"
    - expression: |-
        {{- include "feature-discovery.ownsItsOwn" . | nindent 8 }}
      message: the agent takes ownership only of fields that it writes
    - expression: variables.spec.size() == 0
      messageExpression: "'the agent does not change the spec of a Node{{ with .taint }}, but for the taint {{ . }}{{ end }}: ' + variables.spec.join(', ')"
    {{- if .taint }}
    - expression: >-
        variables.taints.all(t, t in variables.oldTaints) &&
        variables.oldTaints.all(t, t in variables.taints || t.key == '{{ $taint._0 }}' && t.effect == '{{ $taint._1 }}')
      message: the agent removes the taint {{ .taint }}, and neither adds nor changes any other
    {{- end }}
    - expression: variables.status.size() == 0
      messageExpression: "'the agent does not change the status of a Node{{ with .condition }}, but for the condition {{ . }}{{ end }}: ' + variables.status.join(', ')"
    {{- if .condition }}
    # Kubernetes does not enforce that each type occurs only once.
    - expression: >-
        variables.conditions.size() == variables.oldConditions.size() &&
        variables.conditions.all(c, c in variables.oldConditions) &&
        variables.oldConditions.all(c, c in variables.conditions) &&
        object.?status.?conditions.orValue([]).size() <= variables.conditions.size() + 1
      message: the agent writes only the condition {{ .condition }}
    {{- end }}
{{- end -}}
