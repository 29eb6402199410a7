#!/bin/sh
# Makes the virtual environment $1 and installs the package there, editable, with the extra $2.
# Does nothing when that has been done for this pyproject.toml, in this folder.
set -eu

venv=$1
extra=$2
cd "$(dirname "$0")/.."

usable() { # can this interpreter run the package?
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

wanted="$(cksum <pyproject.toml) $extra $(pwd -P)"
if [ "$(cat "$venv/.installed" 2>/dev/null || true)" = "$wanted" ] && usable "$venv/bin/python"; then
    exit 0
fi

find_interpreter() {
    without_venv=
    for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python3.14 python}; do
        # Run it: a name on PATH may be a version manager's stub that only prints an error.
        usable "$candidate" || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
        without_venv="$without_venv $candidate"
    done
    if [ -n "$without_venv" ]; then
        set -- $without_venv
        version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        echo "setup: $1 (Python $version) has no venv module with pip in it." >&2
        echo "setup: on Debian or Ubuntu: apt-get install python$version-venv" >&2
    else
        echo "setup: no Python 3.11 or newer among: ${PYTHON:-python3.13, python3.12, python3.11, python3}." >&2
        echo "setup: install one, or name it: make PYTHON=/path/to/python3 ..." >&2
    fi
    return 1
}

if [ ! -e "$venv/pyvenv.cfg" ]; then
    interpreter=$(find_interpreter)
    echo "setup: $venv, with $("$interpreter" -V) at $interpreter"
    "$interpreter" -m venv "$venv"
elif ! usable "$venv/bin/python"; then
    echo "setup: $venv/bin/python does not run, or is older than 3.11." >&2
    echo "setup: make clean removes it; then try again." >&2
    exit 1
fi

# An earlier run may have been interrupted before pip was there.
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null

echo "setup: installing surestream[$extra] into $venv (the first time takes a minute)"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input -e ".[$extra]"
echo "$wanted" >"$venv/.installed"
