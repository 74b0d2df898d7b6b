#!/usr/bin/env bash
# Installs what the build (and with "test" also what the tests) need from the distribution, and only what is missing.
# usage: scripts/setup.sh [test]
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache mold pkg-config
  libfmt-dev nlohmann-json3-dev libcli11-dev libprotobuf-dev protobuf-compiler libonnx-dev
  libflatbuffers-dev flatbuffers-compiler libsimdjson-dev zlib1g-dev libzstd-dev libboost-dev libminizip-dev libstb-dev
  libssl-dev libgrpc++-dev protobuf-compiler-grpc
  libgtest-dev libbenchmark-dev)
test_packages=(clang-format clang-tidy python3 python3-dev python3-venv python3-pytest python3-numpy python3-onnx xz-utils openssl)

packages=("${build_packages[@]}")
[ "${1:-}" = test ] && packages+=("${test_packages[@]}")

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; make sure these (Debian names) are installed: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: not root and no sudo: please install the packages above" >&2; exit 1; }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "setup: done"
