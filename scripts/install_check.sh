#!/usr/bin/env bash
# Builds the source distribution and from it the wheel, installs the wheel in an empty environment, and speaks in an
# empty folder. `make install-check PYTHON=python3.14` runs it with another Python. pip's settings pass through.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=$PWD
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pip=("$folder/environment/bin/python" -m pip --quiet)

"$python" -m venv "$folder/build"
"$folder/build/bin/python" -m pip --quiet install build
"$folder/build/bin/python" -m build --outdir "$folder/dist" .  >"$folder/build.log" || { cat "$folder/build.log"; exit 1; }
ls -l "$folder/dist"

"$python" -m venv "$folder/environment"
"$folder/environment/bin/python" "$repository/scripts/install_torch.py"
"${pip[@]}" install "$folder"/dist/*.whl
"${pip[@]}" check

mkdir "$folder/empty"
cd "$folder/empty"
"$folder/environment/bin/sonant" say "Hello there." -o hello.wav
bytes=$(stat -c %s hello.wav)
[ "$bytes" -gt 20000 ] || { echo "install-check: hello.wav has only $bytes bytes"; exit 1; }
echo "install-check: $("$python" --version) speaks: hello.wav has $bytes bytes"
