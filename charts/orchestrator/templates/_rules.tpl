{{- /* The rights of the orchestrator in the whole cluster. _work.tpl has the rights to apply workloads. */ -}}
{{- define "orchestrator.rules" -}}
# Which nodes have GPUs, and which labels and conditions agents have left on them.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch]
# Which pods of agents "orchestrator delete --verify" finds.
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
# Whether NVIDIA's GPU Operator has objects here, and would configure the same nodes.
- apiGroups: [nvidia.com]
  resources: [clusterpolicies, nvidiadrivers, gpuclusters]
  verbs: [list]
- apiGroups: [outrigger.dev]
  resources: [clusterpolicies]
  verbs: [get, list, watch, update, patch, delete]
- apiGroups: [outrigger.dev]
  resources: [clusterpolicies/finalizers]
  verbs: [update]
- apiGroups: [outrigger.dev]
  resources: [clusterpolicies/status]
  verbs: [update, patch]
# Whether somebody is deleting the definition. Only a Job of Helm writes it: see _crd.tpl.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [clusterpolicies.outrigger.dev]
  verbs: [get]
{{- end -}}

{{- /* Its rights in the namespace default, which has its Lease, and Events about objects without a namespace. */ -}}
{{- define "orchestrator.defaultRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [outrigger]
  verbs: [get, update]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- /* Its rights in its own namespace: "orchestrator delete" looks for the record of "orchestrator apply". */ -}}
{{- define "orchestrator.ownRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [outrigger-inventory]
  verbs: [get, delete]
{{- end -}}
