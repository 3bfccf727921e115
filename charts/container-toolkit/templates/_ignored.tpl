{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "container-toolkit.withoutEffect" -}}
{{- end -}}
