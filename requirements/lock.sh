#!/usr/bin/env bash
# Writes requirements/base.txt and requirements/dev.txt anew: exact versions with the hashes of every file of
# each version, for every platform and Python from 3.11 on. The files name no index, so they install from
# whichever one pip is set up with.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet uv

lock() {
    local target=$1
    shift
    {
        echo "# Locked by \`make lock\`; install with \`pip install --require-hashes -r $target\`."
        "$tools/bin/uv" pip compile --quiet --universal --upgrade --python-version 3.11 --generate-hashes \
            --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-index-annotation \
            "$@"
    } >"$tools/locked.txt"
    if grep -n '://' "$tools/locked.txt"; then
        echo "lock: $target would name a host (above); nothing was written" >&2
        exit 1
    fi
    cp "$tools/locked.txt" "$target"
}

lock requirements/base.txt pyproject.toml
lock requirements/dev.txt --all-extras pyproject.toml requirements/dev.in
