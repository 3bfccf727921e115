{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "dra-plugin.withoutEffect" -}}
{{- end -}}
