#!/usr/bin/env bash
# test_ca.sh DIR [NAME|user=USER[,USER...]...]: an authority for tests, and certificates that it signed: DIR/ca.pem, server.pem,
# server.key, client.pem, client.key. The server's is for localhost, its numbers, and the names (or IP addresses) given. For each
# user= there is one of a client that may bring the work of these users, such as user-ann.pem and user-ann.key of user=ann,ben
# (user-any of user=*). All end after 30 days. Not for use: the keys lie in DIR unprotected.
set -euo pipefail
[[ $# -ge 1 ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
dir=$1
shift
mkdir -p "$dir"
cd "$dir"
umask 077
trap 'rm -f ./*.csr ./*.ext' EXIT

names=DNS:localhost,IP:127.0.0.1,IP:::1
clients=()
for name in "$@"; do
  if [[ $name == user=* ]]; then clients+=("${name#user=}")
  elif [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then names+=,IP:$name; else names+=,DNS:$name; fi
done

quietly() { openssl "$@" 2> openssl.log || { cat openssl.log >&2; exit 1; }; }

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc)
quietly req -x509 "${new_key[@]}" -days 30 -subj "/CN=carya test authority" -keyout ca.key -out ca.pem \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign

# sign NAME EXTENSIONS
sign() {
  quietly req "${new_key[@]}" -subj "/CN=carya test $1" -keyout "$1.key" -out "$1.csr"
  printf '%s\n' "basicConstraints=CA:FALSE" "${@:2}" > "$1.ext"
  quietly x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days 30 -extfile "$1.ext" -out "$1.pem"
}
sign server "extendedKeyUsage=serverAuth" "subjectAltName=$names"
sign client "extendedKeyUsage=clientAuth" "subjectAltName=DNS:client.test"
for users in "${clients[@]}"; do
  first=${users%%,*}
  sign "user-${first/#\*/any}" "extendedKeyUsage=clientAuth" "subjectAltName=DNS:client.test,URI:carya:user:${users//,/,URI:carya:user:}"
done
rm -f openssl.log
echo "test authority and certificates in $PWD (server: $names)"
