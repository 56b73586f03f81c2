# What deb_trial.sh and container/trial.sh share: Debian trees, commands in them, a loader that is tried there. Sourced.

say() { printf '\033[1mcarya\033[0m  trial: %s\n' "$*"; }
die() {
  printf 'carya: trial: %s\n' "$@" >&2
  exit 1
}

# make_base FOLDER DEPENDS: a Debian 12 tree with these packages (a list like that of Depends:), unless it is there.
make_base() {
  local folder=$1 wanted=$2
  [[ -f $folder.stamp && $(< "$folder.stamp") == "$wanted" ]] && return
  say "making a Debian 12 tree (log: $folder.log)"
  rm -rf "$folder" "$folder.stamp"
  {
    debootstrap --variant=minbase bookworm "$folder" "${MIRROR:-http://deb.debian.org/debian}" &&
      in_root "$folder" env DEBIAN_FRONTEND=noninteractive apt-get satisfy -y -q --no-install-recommends "$wanted" &&
      in_root "$folder" apt-get clean
  } > "$folder.log" 2>&1 || die "making the tree failed; the end of $folder.log says:" "$(tail -n 3 "$folder.log")"
  echo "$wanted" > "$folder.stamp"
}

# in_root FOLDER COMMAND...: in the tree, with namespaces of its own for mounts and processes, as a container has.
in_root() {
  local folder=$1
  shift
  # shellcheck disable=SC2016  # the inner shell's variables
  unshare --mount --pid --ipc --fork --kill-child sh -euc '
    mount -t proc proc "$1/proc"
    folder=$1
    shift
    exec chroot "$folder" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"' - "$folder" "$@"
}

# try_package FOLDER: the programs and the package in the tree do what they are for.
try_package() {
  cp packaging/trial_loader.py "$1/srv/"
  in_root "$1" sh -euc '
    export XDG_CACHE_HOME=/srv/cache
    caryad --version && carya-worker --version
    carya doctor > /dev/null && carya service install --dry-run > /dev/null
    python3 /srv/trial_loader.py spawn' || die "the installed package does not work"
}

# try_service FOLDER: boots the tree with systemd and runs the script trial_service.sh there. What that says is shown.
try_service() {
  local folder=$1 status
  cp packaging/trial_loader.py packaging/trial_service.sh "$folder/srv/"
  # Its end, good or bad, ends the tree's systemd, and with it nspawn.
  cat > "$folder/etc/systemd/system/trial.service" << 'END'
[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/srv/trial_service.sh
TimeoutStartSec=120
StandardOutput=file:/srv/trial_service.log
StandardError=inherit
END
  ln -sf ../trial.service "$folder/etc/systemd/system/default.target.wants/" 2> /dev/null || {
    mkdir -p "$folder/etc/systemd/system/graphical.target.wants"
    ln -sf ../trial.service "$folder/etc/systemd/system/graphical.target.wants/"
  }
  timeout 180 systemd-nspawn --boot --quiet --register=no --keep-unit -D "$folder" > "$folder.boot.log" 2>&1 || true
  status=$(tail -n 1 "$folder/srv/trial_service.log" 2> /dev/null || true)
  cat "$folder/srv/trial_service.log" 2> /dev/null || tail -n 5 "$folder.boot.log"
  rm -f "$folder/etc/systemd/system/trial.service" "$folder"/etc/systemd/system/*.target.wants/trial.service
  [[ $status == done ]] || die "the system service does not work in the booted tree"
}
