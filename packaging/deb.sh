#!/usr/bin/env bash
# deb.sh BUILD OUT: Debian packages `carya` and `python3-carya` in the folder OUT, of the programs and the extension that
# `tools/build.sh` has built in the folder BUILD. Nothing is compiled again. lintian must be silent.
#
# The package's version is the project's (pyproject.toml), with the Debian revision 1.
set -euo pipefail
if (($# != 2)); then
  echo "usage: deb.sh BUILD OUT" >&2
  exit 2
fi
build=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tree=build/deb/tree log=build/deb.log
quietly() { "$@" >> "$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }; }
rm -rf build/deb/tree build/deb/carya_* build/deb/python3-carya_* build/deb/*.deb
mkdir -p "$tree" "$out"
: > "$log"
# The extension is of one version of CPython: that of Debian's python3.
suffix=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
if [[ ! -f $build/python/carya/_core$suffix ]]; then
  echo "carya: $build has no extension for Debian's python3 (_core$suffix); put /usr/bin first in PATH," \
    "then: rm -rf .venv $build; make deb" >&2
  exit 1
fi
printf '\033[1mcarya\033[0m  making Debian packages (log: %s)\n' "$log"

# The build tree: what is installed, below `installed`, and the files that the packages' rules name.
cp -r packaging/debian "$tree/debian"
cp -r CHANGELOG.md packaging "$tree"
cp packaging/systemd/sysusers.conf "$tree/debian/carya.sysusers"
stamp=$(git log -1 --format=%ct 2> /dev/null || date +%s)
cat > "$tree/debian/changelog" << END
carya ($version-1) bookworm; urgency=medium

  * What is new stands in /usr/share/doc/carya/changelog.gz.

 -- $(sed -n 's/^Maintainer: //p' packaging/debian/control)  $(date --date="@$stamp" --rfc-email)
END
quietly packaging/install.sh "$build/python/carya/bin" /usr "$PWD/$tree/installed"

# The package of Python: its files, the extension, and what `carya service install` writes. No `bin`: the programs lie in
# /usr/bin.
site=$tree/installed/usr/lib/python3/dist-packages
package=$site/carya
mkdir -p "$package"
(cd python && find carya -type f -not -path '*/__pycache__/*' -not -name '*.so' -not -name README.md -exec cp --parents -t "../$site" {} +)
cp "$build/python/carya/_core$suffix" "$package/"
mkdir "$package/service"
cp -r packaging/systemd packaging/caryad.toml "$package/service/"
info=$site/carya-$version.dist-info
mkdir "$info"
printf 'Metadata-Version: 2.1\nName: carya\nVersion: %s\nSummary: %s\n' "$version" \
  "$(sed -n 's/^description = "\(.*\)"/\1/p' pyproject.toml)" > "$info/METADATA"
echo debian > "$info/INSTALLER"
install -d "$tree/installed/usr/bin"
cat > "$tree/installed/usr/bin/carya" << 'END'
#!/usr/bin/python3
from carya._cli.main import main

main()
END
chmod 755 "$tree/installed/usr/bin/carya"

(cd "$tree" && SOURCE_DATE_EPOCH=$stamp DEB_BUILD_OPTIONS=noautodbgsym \
  dpkg-buildpackage -b -us -uc -d) >> "$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }
lintian --fail-on error,warning --tag-display-limit 0 --allow-root build/deb/carya_*.changes
rm -f "$out"/carya_*.deb "$out"/python3-carya_*.deb
mv build/deb/*.deb "$out"
ls -sh "$out"/carya_*.deb "$out"/python3-carya_*.deb
