{{- /* Rejects values that the pods cannot follow. */ -}}
{{- define "validator.check" -}}
{{- if not (regexMatch `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$` .Values.plugin.resource) -}}
{{- include "outrigger.problem" (dict "root" . "path" "plugin.resource" "reason" (printf "%q is not a name with a domain" .Values.plugin.resource)
  "set" (dict "plugin.resource" "nvidia.com/gpu") "instead" "write a name such as nvidia.com/gpu") -}}
{{- end -}}
{{- end -}}

{{- /* A PodTemplate, up to the containers of its pods. Argument: (dict "root" $ "name" … "part" its
values "validates" the chart after which it runs). */ -}}
{{- define "validator.podTemplate" -}}
{{- $v := .root.Values -}}
{{- $labels := include "outrigger.partLabels" (dict "root" .root "part" .name) -}}
apiVersion: v1
kind: PodTemplate
metadata:
  name: {{ .name }}
  namespace: {{ include "outrigger.namespace" .root }}
  labels:
    {{- $labels | nindent 4 }}
  annotations:
    outrigger.dev/validates: {{ .validates }}
    outrigger.dev/validate-nodes: {{ .part.nodes | quote }}
template:
  metadata:
    labels:
      {{- mergeOverwrite (deepCopy (default dict $v.podLabels)) (fromYaml $labels) (dict "outrigger.dev/validation" .name) | toYaml | nindent 6 }}
    {{- with $v.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    activeDeadlineSeconds: {{ $v.timeoutSeconds }}
    terminationGracePeriodSeconds: 1
    automountServiceAccountToken: false
    enableServiceLinks: false
    {{- with include "outrigger.pullSecrets" .root }}
    {{- nindent 4 . }}
    {{- end }}
    {{- with $v.priorityClassName }}
    priorityClassName: {{ . }}
    {{- end }}
    {{- with .part.runtimeClassName }}
    runtimeClassName: {{ . }}
    {{- end }}
    {{- include "outrigger.placement" (dict "nodeSelector" $v.nodeSelector "affinity" (default (include "validator.affinity" . | fromYaml) $v.affinity)
      "tolerations" (include "outrigger.tolerations" (dict "root" .root "taint" (include "outrigger.startupTaint" .root)) | fromYamlArray)) | nindent 4 }}
{{- end -}}

{{- /* The default affinity: GPU nodes that run the validated chart. */ -}}
{{- define "validator.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range $label := list "feature.node.kubernetes.io/pci-10de.present" "nvidia.com/gpu.present" }}
      - matchExpressions:
          - key: {{ $label }}
            operator: In
            values: ["true"]
          - key: nvidia.com/gpu.deploy.{{ $.validates }}
            operator: NotIn
            values: ["false"]
      {{- end }}
{{- end -}}

{{- /* The container. Argument: (dict "root" $ "env" … "resources" …). */ -}}
{{- define "validator.container" -}}
{{- $v := .root.Values -}}
{{- $names := list -}}
{{- range $v.env }}{{ $names = append $names .name }}{{ end -}}
{{- $env := list -}}
{{- range .env }}{{ if not (has .name $names) }}{{ $env = append $env . }}{{ end }}{{ end -}}
name: vectoradd
image: {{ include "outrigger.image" (dict "root" .root "name" "vectoradd") }}
imagePullPolicy: {{ include "outrigger.pullPolicy" .root }}
{{- with $v.args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat $env (default list $v.env) }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}
