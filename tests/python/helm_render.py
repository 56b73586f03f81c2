"""Renders a chart by Helm's own engine, and checks its documents: helm_render.py FOLDER CHART VALUES VERSION...

FOLDER has the packages helm-python-sdk and kubernetes-validate (tools/setup.sh). Prints JSON: what lint says, the documents, and
what the schemas of the API say of each. A process of its own: the engine is a Go program in a shared library.
"""

from __future__ import annotations

import json
import sys

sys.path.insert(0, sys.argv[1])

import helm_python
import kubernetes_validate
import yaml

chart_folder, values, versions = sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
found = {"lint": helm_python.lint(chart_folder), "documents": [], "wrong": [], "unknown": [], "notes": ""}
try:
    with helm_python.Chart.load(chart_folder) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name="train", namespace="ml")
except helm_python.HelmError as error:
    print(json.dumps({**found, "error": str(error)}))
    raise SystemExit(0) from None
for name, text in rendered.items():
    if name.endswith(".txt"):
        found["notes"] = text
        continue
    for document in yaml.safe_load_all(text):
        if document is None:
            continue
        found["documents"].append(document)
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.SchemaNotFoundError:
                found["unknown"].append(document["kind"])
            except kubernetes_validate.ValidationError as error:
                found["wrong"].append(f"{name}: {document['kind']} {version}: {error.message}")
print(json.dumps(found))
