#!/usr/bin/env bash
# Fetches a model of tools/models.json (the default one if none is named) into the cache and prints its folder.
# The work is done by fetch_model.py; this script gives it the Python of .venv, whose pip does the download.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh" model
exec "$root/.venv/bin/python" "$root/tools/fetch_model.py" "$@"
