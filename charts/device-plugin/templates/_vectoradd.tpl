{{- define "device-plugin.vectoradd" -}}
{{- if .Values.devicePlugin.enabled -}}
# "helm test" runs it: a container that adds two vectors on a GPU and checks the result.
apiVersion: v1
kind: Pod
metadata:
  name: {{ include "outrigger.nameWith" (dict "root" . "suffix" "vectoradd") }}
  namespace: {{ include "outrigger.namespace" . }}
  labels:
    {{- include "outrigger.partLabels" (dict "root" $ "part" "vectoradd") | nindent 4 }}
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  {{- with include "outrigger.pullSecrets" . }}
  {{- nindent 2 . }}
  {{- end }}
  {{- with .Values.test.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  containers:
    - name: vectoradd
      image: {{ include "outrigger.image" (dict "root" . "values" .Values.test "at" "test." "name" "vectoradd" "beside" .Values) }}
      imagePullPolicy: {{ include "outrigger.pullPolicy" . }}
      resources:
        limits:
          {{ .Values.test.resource }}: 1
      securityContext:
        allowPrivilegeEscalation: false
        capabilities:
          drop: [ALL]
  tolerations:
    - key: nvidia.com/gpu
      operator: Exists
{{- end }}
{{- end -}}
