#!/bin/sh
# The system service in a tree that systemd has booted: a loader starts it, it survives a reload, a kill and an upgrade,
# and it is stopped when its package is removed. deb_trial.sh runs it there; its last word is "done".
set -eu
fail() { echo "failed: $*"; journalctl --no-pager -n 20 -u caryad.service; exit 1; }
loader() {
  runuser -u carya -- env CARYA_DAEMON_SOCKET=/run/carya/caryad.sock CARYA_CACHE_DIR=/var/cache/carya \
    python3 /srv/trial_loader.py required /srv/pictures || fail "the loader, $1"
}
main_pid() { systemctl show -P MainPID caryad.service; }

mkdir -p /srv/pictures
chmod 777 /srv/pictures
systemctl enable --now caryad.socket
systemctl is-active --quiet caryad.service && fail "the service runs before anybody has come"
loader "which starts the service"
systemctl is-active --quiet caryad.service || fail "no loader has started the service"
systemctl reload caryad.service || fail "reload"
sed -i 's/^metrics = ""/metrics = "127.0.0.1:9464"/' /etc/carya/caryad.toml
systemctl restart caryad.service || fail "metrics in the configuration"
python3 -c 'import urllib.request as u; assert b"carya_uptime_seconds" in u.urlopen("http://127.0.0.1:9464/metrics").read()' ||
  fail "the page of the metrics"
sed -i 's/^metrics = .*/metrics = ""/' /etc/carya/caryad.toml
systemctl restart caryad.service
before=$(main_pid)
systemctl kill --signal KILL caryad.service
loader "after a kill"
[ "$(systemctl show -P NRestarts caryad.service)" = 1 ] || fail "it was not restarted once"
before=$(main_pid)
dpkg --force-confdef --force-confold -i /srv/*_2.deb > /dev/null 2>&1 || fail "upgrade"
[ "$(main_pid)" != "$before" ] || fail "an upgrade does not restart the service"
loader "after an upgrade"
ls /var/cache/carya | grep -q . || fail "the service keeps nothing in its cache folder"
pid=$(main_pid)
dpkg -r carya python3-carya > /dev/null 2>&1 || fail "removal"
[ -e "/proc/$pid" ] && fail "removal leaves the daemon running"
echo done
