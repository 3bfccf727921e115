{{- /* What every agent is told of its pod and how to speak, of (dict "root" $ "port"
its port). */ -}}
{{- define "outrigger.podEnv" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
- name: SYS_ROOT
  value: /host/sys
{{- if not .root.Values.runtimeClassName }}
# An image that asks for GPUs gets them from a default runtime of NVIDIA's, which
# would not start it before there is a driver.
- name: NVIDIA_VISIBLE_DEVICES
  value: void
{{- end }}
- name: LOG_LEVEL
  value: {{ .root.Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .root.Values.logFormat }}
- name: LISTEN_ADDRESS
  value: {{ .root.Values.metrics.port | empty | ternary "" (printf ":%d" (int .port)) | quote }}
{{- end -}}

{{- /* What the user has chosen, of a list of (list NAME value): a value that is null,
or an empty list, sets no variable, so that the config file decides, or else the
agent's default. */ -}}
{{- define "outrigger.choiceEnv" -}}
{{- $env := list -}}
{{- range . -}}
{{- $value := last . -}}
{{- if not (or (kindIs "invalid" $value) (and (kindIs "slice" $value) (empty $value))) -}}
{{- $env = append $env (dict "name" (first .) "value" (kindIs "slice" $value | ternary (join "," $value) (toString $value))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- /* The variables of a container, of (dict "root" $ "port" its port "more" its own
ones "theirs" the user's): the user's, and those of ours that the user does not
set. A name that is there twice is refused by server-side apply. */ -}}
{{- define "outrigger.env" -}}
{{- $taken := list -}}
{{- range .theirs }}{{ $taken = append $taken .name }}{{ end -}}
{{- $env := list -}}
{{- range concat (include "outrigger.podEnv" . | fromYamlArray) .more -}}
{{- if not (has .name $taken) }}{{ $env = append $env . }}{{ end -}}
{{- end -}}
{{- concat $env (default list .theirs) | toYaml -}}
{{- end -}}
