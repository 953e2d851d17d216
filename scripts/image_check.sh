#!/usr/bin/env bash
# Builds the CPU image with buildah, runs it with podman, and stops it while it speaks: nothing may be cut off.
# `make image-check` runs it. Both programs are packages of Debian, Ubuntu and Fedora. These variables adapt it:
#   PYTHON_IMAGE   the base image (default: the Dockerfile's)
#   BASE_TREE      a folder with a root file system that has python3 and its venv module, instead of a base image: for
#                  machines that reach no image registry (debootstrap --include=ca-certificates,python3-venv makes one).
#                  It becomes PYTHON_IMAGE=localhost/sonant-image-check:base, with which the next build uses its cache
#   BUILD_ARGS     more arguments of buildah build, for example --build-arg PIP_INDEX_URL=...
#   RUN_ARGS       more arguments of podman run, for example --runtime runc on a machine with cgroup v1, and
#                  --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 for a root that must not raise limits
#   PODMAN         the command that runs containers (default: podman)
set -euo pipefail
cd "$(dirname "$0")/.."

readonly NAME=sonant-image-check IMAGE=localhost/sonant-image-check:cpu
podman=${PODMAN:-podman}
read -ra build_args <<<"${BUILD_ARGS:-}"
read -ra run_args <<<"${RUN_ARGS:-}"
folder=$(mktemp -d)

fail() {
  printf 'image-check: %s\n' "$1" >&2
  "$podman" logs "$NAME" >&2 || true
  exit 1
}

clean_up() {
  "$podman" rm --force --time 0 "$NAME" >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap clean_up EXIT

speak() { # speak FILE REPEATS: three seconds of speech for each repeat, the same at every call
  local file=$1 text
  text=$(printf 'The last boats came back to the harbor, one after the other. %.0s' $(seq "$2"))
  curl --silent --show-error --fail --no-buffer --max-time 60 -o "$file" "http://127.0.0.1:$port/v1/audio/speech" \
    -H 'Content-Type: application/json' -d '{"voice": "ava", "response_format": "pcm", "seed": 1, "input": "'"$text"'"}'
}

milliseconds() {
  echo $((${EPOCHREALTIME/[^0-9]/} / 1000))
}

time_speech() { # time_speech REPEATS: prints the milliseconds until the end of the response
  local started
  started=$(milliseconds)
  speak "$folder/whole" "$1" || fail "the server did not speak"
  echo $(($(milliseconds) - started))
}

wait_for() { # wait_for SECONDS COMMAND...: until the command succeeds
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.2
  done
}

logged() { # logged TEXT: whether the log of the container contains the text
  [[ $("$podman" logs "$NAME" 2>&1) == *"$1"* ]]
}

healthy() {
  "$podman" healthcheck run "$NAME"
}

healthy_or_ended() {
  healthy || [ "$("$podman" inspect --format '{{.State.Running}}' "$NAME")" = false ]
}

if [ -n "${BASE_TREE:-}" ]; then
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$BASE_TREE" / >/dev/null
  buildah commit --quiet "$container" localhost/sonant-image-check:base >/dev/null
  buildah rm "$container" >/dev/null
  PYTHON_IMAGE=localhost/sonant-image-check:base
fi
[ -z "${PYTHON_IMAGE:-}" ] || build_args+=(--build-arg "PYTHON_IMAGE=$PYTHON_IMAGE")
# buildah 1.28, Debian 12's, does not wait for a stage that another one copies from, so the dependencies are built first.
for target in dependencies-cpu cpu; do
  buildah build --format docker --layers --target "$target" --tag "${IMAGE%:*}:$target" "${build_args[@]}" .
done

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -m 755 "$folder/voices"
started=$(milliseconds)
container=$("$podman" run --detach --name "$NAME" --network host -e SONANT_HOST=127.0.0.1 -e "SONANT_PORT=$port" \
  --volume "$folder/voices:/var/lib/sonant/voices" "${run_args[@]}" "$IMAGE")
echo "image-check: container ${container:0:12} on port $port"

wait_for 300 healthy_or_ended || fail "the health check did not succeed within 300 s"
healthy >/dev/null || fail "the server ended"
echo "image-check: healthy after $(($(milliseconds) - started)) ms"
logged "voices.folder: user 10001 cannot write" ||
  fail "the log does not say that the mounted folder cannot be written"

# The speech must take longer than podman needs to send the signal, and less than the drain time of the image. Other
# programs slow down a single measurement, so the shorter of two counts.
repeats=1
while :; do
  took=$(time_speech $repeats)
  again=$(time_speech $repeats)
  [ "$again" -ge "$took" ] || took=$again
  [ "$took" -lt 1500 ] && [ $repeats -lt 32 ] || break
  repeats=$((repeats * 2))
done
speak "$folder/stopped" $repeats &
speaking=$!
wait_for 60 test -s "$folder/stopped" || fail "no speech arrived"
started=$(milliseconds)
"$podman" stop "$NAME" >/dev/null
stopped=$(($(milliseconds) - started))
wait $speaking || fail "the response was cut off after $(stat -c %s "$folder/stopped") of $(stat -c %s "$folder/whole") bytes"
cmp "$folder/whole" "$folder/stopped" || fail "the speech differs"
code=$("$podman" inspect --format '{{.State.ExitCode}}' "$NAME")
[ "$code" = 0 ] || fail "the exit code is $code"
logged "Stopping: 1 utterance in flight" ||
  fail "the server had finished the speech, which takes $took ms, before it was stopped"
echo "image-check: stopped in $stopped ms while it spoke; all $(stat -c %s "$folder/stopped") bytes arrived, exit code 0"
"$podman" history --no-trunc --format '{{.Size}}	{{.CreatedBy}}' "$IMAGE" | grep -v '^0 *B' |
  sed -E 's,/bin/sh -c ,,; s,#\(nop\) ,,; s, (dir|file):[0-9a-f]+ in,,' | cut -c1-100
