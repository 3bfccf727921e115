{{- /* The start of a DaemonSet, up to the spec of its pods: of (dict "root" $ "name" …
"labels" … "selector" … "updateStrategy" …). */ -}}
{{- define "outrigger.daemonset" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name }}
  namespace: {{ include "outrigger.namespace" .root }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
  updateStrategy:
    {{- toYaml .updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- mergeOverwrite (deepCopy (default dict .root.Values.podLabels)) (fromYaml .labels) | toYaml | nindent 8 }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- /* The cluster-side settings of pods, of (dict "root" $ "account" the service account
"api" whether they use the API server "grace" the seconds that they need to stop). */ -}}
{{- define "outrigger.pod" -}}
serviceAccountName: {{ .account }}
{{- if .api }}
# See "Privileges and why" in the chart's README.md.
automountServiceAccountToken: true
{{- else }}
# The agent does not use the API server.
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .grace }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* The runtime settings of pods that use the driver. */ -}}
{{- define "outrigger.podRuntime" -}}
{{- with .Values.runtimeClassName -}}
runtimeClassName: {{ . }}
{{ end -}}
{{- with .Values.podSecurityContext -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{- /* The start of a container, of (dict "root" $ "name" … "args" … "env" … "resources" …). */ -}}
{{- define "outrigger.container" -}}
name: {{ .name }}
image: {{ include "outrigger.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- with .args }}
args:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  {{- .env | nindent 2 }}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Not below /dev, which can be the host's.
terminationMessagePath: /run/termination-log
terminationMessagePolicy: FallbackToLogsOnError
{{- end -}}

{{- define "outrigger.readinessProbe" -}}
ports:
  - name: metrics
    containerPort: {{ . }}
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
{{- end -}}

{{- /* The ports and probes of a container, of its port. */ -}}
{{- define "outrigger.probes" -}}
{{ include "outrigger.readinessProbe" . }}
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 20
  failureThreshold: 3
{{- end -}}

{{- /* Where pods run, of values with nodeSelector, affinity and tolerations. */ -}}
{{- define "outrigger.placement" -}}
{{- $where := dict -}}
{{- range $key := list "nodeSelector" "affinity" "tolerations" -}}
{{- with get $ $key }}{{ $_ := set $where $key . }}{{ end -}}
{{- end -}}
{{- with $where }}{{ toYaml . }}{{ end -}}
{{- end -}}
