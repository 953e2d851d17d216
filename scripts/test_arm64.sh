#!/usr/bin/env bash
# Runs tests as linux/arm64 with qemu-user on an x86-64 machine. `make test-arm64` runs it, as root; CI does not.
# Needs debootstrap, qemu-user-static, binfmt-support and ca-certificates (packages of Debian and Ubuntu), and pip.
# Emulation is 10 to 20 times slower than the machine itself.
#
# Runs: the transfer between processes, with unit tests and with the stress test with fewer records; the sampler, the
# matrix products in each weight format, and the talker and Code2Wav against the results of the official implementation.
# ARGS can name other tests. Nothing else should run on the machine meanwhile: importing torch under emulation takes a
# minute on an idle machine, and more than ten beside other work.
# It does not test the order of memory accesses: qemu keeps the stronger order of x86. See engine/transfer/ring.py.
#
# Variables:
#   ARM64_ROOT   a root file system for arm64 with Python 3.11 or newer (default: /var/tmp/sonant-arm64, made by
#                debootstrap)
#   MIRROR       Debian's mirror for debootstrap (default: debootstrap's)
#   PYTHON       a Python on this machine, whose pip installs the packages for arm64 (default: python3)
#   QEMU_CPU     the emulated processor (default: without SVE and SME, whose emulation is slow)
#   ARGS         arguments of pytest instead of the tests listed below
# pip's own settings apply. Its default index has CUDA builds of torch (3 GB with their libraries). To use a CPU build,
# name PyTorch's index of CPU builds in PIP_EXTRA_INDEX_URL.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly TESTS="tests/unit/transfer tests/faults/test_transfer_stress.py tests/unit/test_sampler.py
tests/unit/test_weight_formats.py tests/unit/test_compiled_layers.py tests/unit/test_compiled_convolutions.py
tests/unit/test_random_checkpoint.py tests/unit/test_kernels.py tests/parity/test_talker.py tests/parity/test_code2wav.py"
root=$(realpath -m "${ARM64_ROOT:-/var/tmp/sonant-arm64}")
python=${PYTHON:-python3}
packages=$root/opt/packages

fail() {
  printf 'test-arm64: %s\n' "$1" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "chroot and mount need root"
[ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] ||
  fail "binfmt_misc has no qemu-aarch64; install qemu-user-static and binfmt-support, then: update-binfmts --enable qemu-aarch64"

# The second stage of debootstrap would run dpkg under emulation. Extracted packages are enough for Python.
if [ ! -e "$root/.extracted" ]; then
  debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,python3-venv trixie "$root" ${MIRROR:+"$MIRROR"}
  for package in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory "$root"
  done
  # In a container, debootstrap makes a link to /proc, which is a loop in the new root.
  [ ! -L "$root/proc" ] || rm "$root/proc"
  mkdir -p "$root/proc"
  touch "$root/.extracted"
fi

# torch reads these files to recognize the processor. Those of this machine describe an x86 processor, so the root gets
# files of its own: one core, an Arm Neoverse N1.
processors=$root/sys/devices/system/cpu
mkdir -p "$processors/cpu0/regs/identification"
echo 0 | tee "$processors/possible" "$processors/present" >"$processors/online"
echo 0x00000000410fd0c0 >"$processors/cpu0/regs/identification/midr_el1"

# pip reads this file when it is imported. tests/unit/test_install_torch.py runs pip in the root.
certificates=/etc/ssl/certs/ca-certificates.crt
[ -e $certificates ] || fail "$certificates is missing; install ca-certificates"
install -D $certificates "$root$certificates"

# pip of this machine installs for the other one, which takes minutes instead of an hour.
if [ ! -e "$packages/.installed" ]; then
  version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  platforms=(--platform manylinux2014_aarch64)
  for minor in {17..39}; do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
  mapfile -t requirements < <("$python" -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
tools = ("hypothesis", "psutil", "pytest>", "pytest-asyncio", "pytest-timeout")
print(*project["dependencies"], *(r for r in project["optional-dependencies"]["test"] if r.startswith(tools)), sep="\n")')
  "$python" -m pip install --no-compile --only-binary=:all: --implementation cp --python-version "$version" \
    "${platforms[@]}" --target "$packages" "${requirements[@]}"
  touch "$packages/.installed"
fi

mkdir -p "$root/project"
printf '/opt/packages\n/project\n' >"$root/usr/lib/python3/dist-packages/sonant-test.pth" # for child processes, too
read -ra arguments <<<"${ARGS:-${TESTS//$'\n'/ }}"
export root
# shellcheck disable=SC2016
exec unshare --mount --pid --fork --kill-child bash -euc '
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount --rbind . "$root/project"
  exec chroot "$root" env -i -C /project PATH=/usr/bin HOME=/root "$@"
' test-arm64 QEMU_CPU="${QEMU_CPU:-max,sve=off,sme=off,pauth-impdef=on}" STRESS_DIVISOR=30 \
  PYTHONPYCACHEPREFIX=/var/cache/python HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis \
  python3 -m pytest -p no:cacheprovider -o timeout=1200 --durations=10 "${arguments[@]}"
