#!/bin/sh
# The system service in a tree that systemd has booted: a loader starts it, it survives a reload, a kill and an upgrade,
# and it is stopped when its package is removed. In between it is the service of all users. deb_trial.sh runs it there; its last word is "done".
set -eu
fail() { echo "failed: $*"; journalctl --no-pager -n 20 -u caryad.service; exit 1; }
loader() {
  runuser -u carya -- env CARYA_DAEMON_SOCKET=/run/carya/caryad.sock CARYA_CACHE_DIR=/var/cache/carya \
    python3 /srv/trial_loader.py required /srv/pictures || fail "the loader, $1"
}
main_pid() { systemctl show -P MainPID caryad.service; }

mkdir -p /srv/pictures
cp /etc/carya/caryad.toml /srv/caryad.toml.before
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
systemctl disable --now caryad.socket caryad.service
cp /usr/share/carya/all-users/* /etc/systemd/system
systemctl daemon-reload
printf '[users]\nallow = ["alice", "@crew"]\n[user.alice]\nweight = 3\n' > /etc/carya/caryad.toml
groupadd crew
useradd --create-home alice
useradd --create-home --groups crew bob
useradd --create-home mallory
homes=/home
as() { runuser -u "$1" -- env HOME="$homes/$1" python3 /srv/trial_loader.py required "${2:-$homes/$1/pictures}"; }
systemctl enable --now caryad.socket
for user in alice bob; do
  mkdir "$homes/$user/pictures"
  chown "$user" "$homes/$user" "$homes/$user/pictures"
  chmod 700 "$homes/$user"
  as "$user" || fail "the loader of $user"
done
as mallory /srv/pictures 2> /dev/null && fail "a user who is not allowed is served"
[ "$(ps -o user= -C caryad | sort | tr '\n' ' ')" = "alice bob root " ] || fail "daemons of $(ps -o user= -C caryad)"
group=/sys/fs/cgroup/system.slice/caryad.service
if [ -e $group/cgroup.controllers ] && grep -qw cpu $group/cgroup.controllers; then
  [ "$(cat "$group/user-$(id -u alice)/cpu.weight" "$group/user-$(id -u bob)/cpu.weight" | tr '\n' ' ')" = "300 100 " ] ||
    fail "weights of users"
fi
systemctl reload caryad.service || fail "reload of the service for all users"
systemctl kill --kill-who main --signal KILL caryad.service
as bob || fail "the loader of bob after a kill"
carya status --all-users --socket /run/carya/caryad.sock | grep -q '^user bob' || fail "status of all users"
systemctl disable --now caryad.socket caryad.service
rm /etc/systemd/system/caryad.*
systemctl daemon-reload
systemctl enable --now caryad.socket
cp /srv/caryad.toml.before /etc/carya/caryad.toml
for user in alice bob mallory; do userdel --remove "$user" 2> /dev/null; done
groupdel crew
loader "of the service for one user again"

pid=$(main_pid)
dpkg -r carya python3-carya > /dev/null 2>&1 || fail "removal"
[ -e "/proc/$pid" ] && fail "removal leaves the daemon running"
echo done
