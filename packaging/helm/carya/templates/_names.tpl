{{- define "carya.name" -}}
{{- if contains "carya" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-carya" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "carya.labels" -}}
app.kubernetes.io/name: carya
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "carya.selector" -}}
app.kubernetes.io/name: carya
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "carya.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "carya.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* The container that passes the pages of a pod's program on: root, the values of its metrics, the port that it is passed on from. */}}
{{- define "carya.metricsContainer" -}}
- name: metrics
  {{- include "carya.image" .root | nindent 2 }}
  command: [python3, /etc/carya/metrics_page.py, {{ .metrics.port | quote }}, {{ .from | quote }}]
  ports:
    - {name: metrics, containerPort: {{ .metrics.port }}}
  securityContext: {{- include "carya.confined" . | nindent 4 }}
  resources: {{- toYaml .metrics.resources | nindent 4 }}
  readinessProbe:
    httpGet: {path: /healthz, port: metrics}
    periodSeconds: 30
    timeoutSeconds: 6
  volumeMounts:
    - {name: config, mountPath: /etc/carya, readOnly: true}
{{- end }}
