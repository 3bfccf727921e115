{{- /* Sets the values of this chart to their defaults, and its names to the orchestrator's names, before each template: a parent
chart sets the agents' namespace in global.namespace, and gives this chart another name. */ -}}
{{- define "orchestrator.names" -}}
{{- include "outrigger.withDefaults" (dict "root" . "name" "orchestrator") -}}
{{- $_ := set .Values "namespaceOverride" (default .Release.Namespace .Values.namespaceOverride) -}}
{{- $_ := set .Values "nameOverride" (default "orchestrator" .Values.nameOverride) -}}
{{- if not (include "outrigger.parentRenders" .) -}}
{{- include "orchestrator.check" . -}}
{{- include "outrigger.report" . -}}
{{- end -}}
{{- end -}}

{{- /* Records the problems of the values. */ -}}
{{- define "orchestrator.check" -}}
{{- $_ := include "outrigger.image" (dict "root" . "name" "orchestrator") -}}
{{- $_ := include "outrigger.service" . -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $_ := include "outrigger.networkPolicy" (dict "root" . "name" "" "labels" "" "selector" "" "port" 0 "hostNetwork" .Values.hostNetwork) -}}
{{- end -}}
{{- end -}}

{{- /* The pod of the program, up to its probes. Argument: (dict "root" $ "account" the name of its account, if
it is not the orchestrator's). */ -}}
{{- define "orchestrator.pod" -}}
{{- $v := .root.Values -}}
serviceAccountName: {{ .account | default (include "outrigger.serviceAccountName" .root) }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- if $v.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with include "outrigger.pullSecrets" .root }}
{{ . }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with include "outrigger.placement" (dict "nodeSelector" $v.nodeSelector "affinity" $v.affinity "tolerations" $v.tolerations) }}
{{ . }}
{{- end }}
{{- end -}}

{{- /* The container, up to its probes. Argument: (dict "root" $ "args" …). */ -}}
{{- define "orchestrator.container" -}}
{{- $v := .root.Values -}}
{{- $taken := list -}}
{{- range $v.env }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range include "orchestrator.env" .root | fromYamlArray }}{{ if not (has .name $taken) }}{{ $env = append $env . }}{{ end }}{{ end -}}
name: orchestrator
image: {{ include "outrigger.image" (dict "root" .root "name" "orchestrator") }}
imagePullPolicy: {{ include "outrigger.pullPolicy" .root }}
args:
  {{- toYaml .args | nindent 2 }}
env:
  {{- concat $env (default list $v.env) | toYaml | nindent 2 }}
{{- with $v.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{- define "orchestrator.env" -}}
- name: NAMESPACE
  value: {{ include "outrigger.namespace" . }}
- name: RELEASE
  value: {{ .Release.Name }}
- name: LOG_LEVEL
  value: {{ (default dict .Values.logging).level | default .Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .Values.logFormat }}
- name: LISTEN_ADDRESS
  value: {{ .Values.metrics.port | empty | ternary "" (printf "%s:%d" (include "outrigger.localhost" . | empty | ternary "" "127.0.0.1") (int .Values.metrics.port)) | quote }}
{{- if .Values.metrics.port }}
{{- $probes := dict "root" . "port" .Values.metrics.port "hostNetwork" .Values.hostNetwork }}
- name: PROBE_ADDRESS
  value: {{ printf "%s:%s" (include "outrigger.probeHost" $probes) (include "outrigger.probePort" $probes) | quote }}
{{- end }}
{{- if include "outrigger.tlsSecret" . }}
- name: TLS_CERT_FILE
  value: /tls/tls.crt
- name: TLS_PRIVATE_KEY_FILE
  value: /tls/tls.key
{{- end }}
{{- end -}}
