{{- /* Written by: go test ./... -update, from values.schema.json. */ -}}
{{- define "mig-manager.withoutEffect" -}}
{{- end -}}
