#!/usr/bin/env bash
# setup.sh demo|test|docs|wheel|deb: installs the Debian packages that are missing and makes .venv. Says nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
group=${1:-test}

say() { printf '\033[1mcarya\033[0m  %s\n' "$*"; }
die() {
  printf 'carya: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

missing_packages() {
  local package
  while read -r package; do
    case $package in '' | '#'*) continue ;; esac
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || echo "$package"
  done < <(cat tools/packages.txt $([[ $group == deb ]] && echo tools/packages-deb.txt))
}

# Runs a command as root: directly, or by sudo. apt's own output goes to a log, shown when it fails.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo > /dev/null && { sudo -n true 2> /dev/null || [[ -t 0 ]]; }; then
    sudo "$@"
  else
    die "these Debian packages are missing and this user may not install them: ${missing[*]}" \
      "Ask an administrator for:  apt-get install ${missing[*]}" \
      "then run the same command again."
  fi
}

install_packages() {
  command -v dpkg-query > /dev/null || die "this set-up knows Debian 12 only (dpkg-query is not here)." \
    "On another system install what tools/packages.txt lists; then run:  CARYA_NO_PACKAGES=1 make $group"
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} == 0 ]] && return
  say "installing ${#missing[@]} Debian packages (log: build/apt.log)"
  mkdir -p build
  as_root true
  as_root apt-get update -qq > build/apt.log 2>&1 ||
    die "apt-get update failed; the end of build/apt.log says:" "$(tail -n 3 build/apt.log)" \
      "Check the network and /etc/apt/sources.list (Debian 12 with its security updates has every package)."
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    >> build/apt.log 2>&1 ||
    die "apt-get install failed; the end of build/apt.log says:" "$(tail -n 3 build/apt.log)" \
      "Debian 12 has clang-19 in its security updates: check that /etc/apt/sources.list names bookworm-security."
}

# Prometheus is unpacked, not installed: Debian's package would start it as a service of this machine.
unpack_prometheus() {
  command -v prometheus promtool > /dev/null && return
  [[ -x build/prometheus/usr/bin/promtool ]] && return
  say "unpacking Debian's package prometheus into build/prometheus"
  mkdir -p build/prometheus
  (cd build/prometheus && apt-get download -q prometheus && dpkg-deb --extract prometheus_*.deb . && rm prometheus_*.deb) \
    > build/prometheus.log 2>&1 ||
    say "no Prometheus: its tests are skipped; the end of build/prometheus.log says: $(tail -n 1 build/prometheus.log)"
}

# nginx likewise.
unpack_nginx() {
  [[ -x build/nginx/usr/sbin/nginx ]] && return
  PATH=$PATH:/usr/sbin command -v nginx > /dev/null && return
  say "unpacking Debian's package nginx into build/nginx"
  mkdir -p build/nginx
  (cd build/nginx && apt-get download -q nginx && dpkg-deb --extract nginx_*.deb . && rm nginx_*.deb) \
    > build/nginx.log 2>&1 ||
    say "no nginx: its tests are skipped; the end of build/nginx.log says: $(tail -n 1 build/nginx.log)"
}

# The page of `carya top --web` is tested in a browser. It is large, so that who may not install it does without.
install_browser() {
  command -v chromium > /dev/null && return
  if [[ $(id -u) == 0 ]] || { command -v sudo > /dev/null && sudo -n true 2> /dev/null; }; then
    say "installing Debian's package chromium (log: build/chromium.log)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
      > build/chromium.log 2>&1 && return
  fi
  say "no chromium: tests of pages in a browser are skipped; install it with: apt-get install chromium"
}

# torchvision as a reference of the tests: tests/python/reference_torchvision.py says why not in .venv.
install_torchvision() {
  [[ -d build/torchvision/torchvision ]] && return
  say "installing torchvision into build/torchvision (log: build/torchvision.log)"
  # shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
  .venv/bin/python -m pip install --disable-pip-version-check --no-compile --quiet --no-deps --target build/torchvision ${PIP_ARGS:-} \
    torchvision==0.28.0 > build/torchvision.log 2>&1 ||
    say "no torchvision: its tests are skipped; the end of build/torchvision.log says: $(tail -n 1 build/torchvision.log)"
}

# Helm's engine and the schemas of Kubernetes, with which tests render the chart. Not in .venv: 160 MB that nothing else needs.
install_helm() {
  [[ -d build/helm/kubernetes_validate && -d build/helm/helm_python ]] && return
  say "installing helm-python-sdk and kubernetes-validate into build/helm (log: build/helm.log)"
  # shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
  .venv/bin/python -m pip install --disable-pip-version-check --no-compile --quiet --upgrade --target build/helm ${PIP_ARGS:-} \
    helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 > build/helm.log 2>&1 &&
    for copy in build/helm/helm_python/lib/libhelm_c.so.*; do ln -f build/helm/helm_python/lib/libhelm_c.so "$copy"; done ||
    say "no Helm: tests of the chart are skipped; the end of build/helm.log says: $(tail -n 1 build/helm.log)"
}

make_venv() {
  command -v python3 > /dev/null || die "python3 is not in PATH." "Install Python 3.10 or newer: apt-get install python3"
  local version
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    die "python3 in PATH is $version; Carya needs 3.10 or newer." "Put a newer python3 first in PATH."
  python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
    die "$(command -v python3) ($version) has no header files (Python.h)." \
      "Install the development files of this very Python, or put Debian's python3 first in PATH."
  if ! .venv/bin/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2> /dev/null; then
    say "making .venv with Python $version"
    rm -rf .venv
    python3 -m venv .venv || die "python3 -m venv failed." "On Debian: apt-get install python3-venv"
  fi
}

install_python() {
  local stamp=.venv/carya-$group.stamp wanted
  wanted=$(cat tools/requirements/*.txt)
  [[ -f $stamp && $(< "$stamp") == "$wanted" ]] && return
  # The test's packages are those of the demo and of the Debian packages, and more.
  [[ $group == de[mb]* && -f .venv/carya-test.stamp && $(< .venv/carya-test.stamp) == "$wanted" ]] && return
  say "installing Python packages: tools/requirements/$group.txt (log: build/pip.log)"
  mkdir -p build
  # shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
  .venv/bin/python -m pip install --disable-pip-version-check --no-compile --quiet ${PIP_ARGS:-} \
    -r "tools/requirements/$group.txt" > build/pip.log 2>&1 ||
    die "pip failed; the end of build/pip.log says:" "$(grep -E 'ERROR|error' build/pip.log | tail -n 3)" \
      "Without a network: PIP_ARGS='--no-index --find-links folder-of-wheels'." \
      "For torch without CUDA: PIP_ARGS='--extra-index-url https://download.pytorch.org/whl/cpu'."
  printf '%s\n' "$wanted" > "$stamp"
}

mkdir -p build
exec 9> build/setup.lock # one at a time: tools/ci.py runs two parts at once
flock 9
[[ -n ${CARYA_NO_PACKAGES:-} ]] || install_packages
# What tests can do without, and whose failure ends nothing, is installed beside the Python packages.
trap wait EXIT
[[ -n ${CARYA_NO_PACKAGES:-} || $group != test ]] || { unpack_prometheus; unpack_nginx; install_browser; } &
make_venv
[[ $group != test ]] || { install_torchvision; install_helm; } &
[[ $group == docs || $group == wheel ]] && { last=$group; group=test; install_python; group=$last; }
install_python
