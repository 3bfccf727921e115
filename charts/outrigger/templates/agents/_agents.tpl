{{- define "outrigger.agentKeys" -}}
- {name: driver-loader, key: driver}
- {name: feature-discovery, key: gfd}
- {name: gpu-sim, key: sim}
- {name: validator, key: validator}
- {name: container-toolkit, key: toolkit}
- {name: dcgm-exporter, key: dcgmExporter}
- {name: mig-manager, key: migManager}
- {name: device-plugin, key: devicePlugin}
- {name: dra-plugin, key: draPlugin}
{{- end -}}
