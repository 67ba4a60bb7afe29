"""The `lakewarden.yaml` of a new lake."""

from __future__ import annotations

import json
from typing import Any

_TEMPLATE = """\
# Lakewarden's configuration. Relative paths start at this file's folder; ${{NAME}} is an environment variable.

lakes:
  {name}:
    catalog:
{catalog}
    warehouse: {warehouse}
    # storage: {{endpoint: "https://…", access_key: "${{KEY}}", secret_key: "${{SECRET}}", region: …}}
    # spark: {{}}                        # additional properties of the Spark catalog

spark:
  master: "local[*]"                   # or a cluster's address; for Spark Connect use remote: "sc://host:15002"
  memory: 4g
  conf: {{}}                             # any Spark setting

state: "sqlite:///lakewarden.db"       # several hosts: "postgresql+psycopg://user:${{PASSWORD}}@host/database"

signing_key: signing-key.pem           # signs certificates: keep it secret, and keep a backup

# leases:
#   timeout: 60s                       # how long a table stays locked after its process died

# quarantine: {{grace: 7d, expired_files: auto}}   # removed files can be restored during grace

# defaults:
#   retention: {{keep_last: 30, keep_days: 90, keep_tagged: true, production_keep_days: 730}}
#   compaction: {{target_file_size_mb: 512, min_file_size_mb: 10, max_concurrent_files: 100, rewrite_all: false}}

# tables:                              # the most specific pattern wins
#   "bronze.*": {{retention: {{keep_days: 30}}}}
#   gold.customers: {{production: true}}
#   "flink.*": {{skip: true}}
"""


def render(name: str, catalog: dict[str, Any], warehouse: str) -> str:
    """The file's text; JSON strings are YAML strings."""
    lines = "\n".join(f"      {_quoted(key)}: {_quoted(value)}" for key, value in catalog.items())
    plain = lines.replace('"type"', "type").replace('"uri"', "uri")
    return _TEMPLATE.format(name=name, catalog=plain, warehouse=_quoted(warehouse))


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)  # \u escapes would cut an emoji in two
