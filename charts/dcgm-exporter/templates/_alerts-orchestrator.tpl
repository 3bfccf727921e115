{{- /* Alerts on the metrics of the orchestrator. The first two have the names of NVIDIA's GPU
Operator. */ -}}
{{- define "dcgm-exporter.alertsOfOrchestrator" -}}
- name: outrigger-orchestrator
  rules:
    - alert: GPUOperatorReconciliationFailed
      expr: gpu_operator_reconciliation_status < 0 or gpu_operator_reconciliation_status == 0 and gpu_operator_gpu_nodes_total > 0
      for: 1h
      labels: {severity: warning}
      annotations:
        summary: The ClusterPolicy has not been ready for an hour
        description: kubectl describe gpupolicy names the stage, the nodes, the cause and the fix.
    - alert: GPUOperatorReconciliationFailedNfdLabelsMissing
      expr: gpu_operator_reconciliation_has_nfd_labels == 0
      for: 30m
      labels: {severity: warning}
      annotations:
        summary: No node has a label of a GPU, and nothing looks for GPUs
        description: Enable feature discovery in the ClusterPolicy, or install Node Feature Discovery.
    - alert: OutriggerStageFailed
      expr: outrigger_orchestrator_stage_state{state="Failed"} == 1
      for: 10m
      labels: {severity: critical}
      annotations:
        summary: The stage [[ $labels.stage ]] has failed
        description: It works on no node, or its objects cannot be applied. kubectl describe gpupolicy names the cause and the fix.
    - alert: OutriggerNodesFailed
      expr: sum by (stage, cause) (outrigger_orchestrator_problem_nodes) > 0
      for: 30m
      labels: {severity: warning}
      annotations:
        summary: '[[ $value ]] nodes have the problem [[ $labels.cause ]] in the stage [[ $labels.stage ]]'
        description: kubectl describe gpupolicy names the nodes and the fix.
    - alert: OutriggerValidationFailed
      expr: sum by (stage, validation) (outrigger_orchestrator_validation_nodes{state="failed"}) > 0
      for: 15m
      labels: {severity: warning}
      annotations:
        summary: The validation [[ $labels.validation ]] has failed on [[ $value ]] nodes
        description: Pods like it would fail there too. kubectl describe gpupolicy names the nodes, and has the end of the log.
    - alert: OutriggerFewGPUNodesReady
      expr: outrigger_orchestrator_ready_nodes / gpu_operator_gpu_nodes_total < 0.9
      for: 30m
      labels: {severity: critical}
      annotations:
        summary: Only [[ $value | humanizePercentage ]] of the GPU nodes can be used
        description: kubectl describe gpupolicy names the causes, by the number of nodes.
{{- end -}}
