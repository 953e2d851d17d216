#!/usr/bin/env bash
# Runs steps 2 to 7 of README.md on all GPUs of this machine, at least two. Writes weights and logs to OUT.
#   scripts/train_pocket/run.sh codec DATA TEACHER OUT    speech, codec, speaker encoder, codes
#   scripts/train_pocket/run.sh talker DATA TEACHER OUT   talker on the first GPU, Code2Wav again on the others
#   scripts/train_pocket/run.sh again DATA TEACHER OUT    a checkpoint's talker, and with CODEC its codec, trained further, on any GPUs
# DATA has plan.jsonl.gz, speakers.json and tokenizer/; for "again" also first/, the output of disassemble.py.
# Variables: COUNT of utterances, minutes TEACH CODEC SPEAKER TALKER. "again" skips the parts that are done.
# For "again", also UNTIL, time in seconds since 1970 at which the talker ends, instead of TALKER; PIECES, a folder of
# prepare_recordings.py to add; CODEC, minutes to train the codec further, and RECORDED, the share of recordings in it.
set -euo pipefail

what=$1 data=$2 teacher=$3 out=$4
gpus=$(nvidia-smi --list-gpus | wc -l)
last=$((gpus - 1))
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=4 TORCH_CPP_LOG_LEVEL=ERROR
mkdir -p "$out"

on() { # on GPUS COMMAND...: run a command on these GPUs
  CUDA_VISIBLE_DEVICES=$1 "${@:2}"
}

several() { # several FIRST LAST MODULE...: run a module with one process per GPU
  on "$(seq -s, "$1" "$2")" python3 -m torch.distributed.run --standalone --nproc-per-node $(($2 - $1 + 1)) -m "${@:3}"
}

speak() {
  export CUDA_MPS_PIPE_DIRECTORY=$out/mps CUDA_MPS_LOG_DIRECTORY=$out/mps
  mkdir -p "$out/mps"
  nvidia-cuda-mps-control -d || echo "MPS is not available"
  python3 -m scripts.train_pocket.teacher_run --plan "$data/plan.jsonl.gz" --speakers "$data/speakers.json" \
    --weights "$teacher" --out "$out/audio" --processes 14 --minutes "${TEACH:-4}" ${COUNT:+--count "$COUNT"} || true
  echo quit | nvidia-cuda-mps-control || true
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

tell_speakers() {
  on "$last" python3 -m scripts.train_pocket.speaker.train --audio "$out/audio" --plan "$data/plan.jsonl.gz" \
    --speakers "$data/speakers.json" --out "$out/speaker" --minutes "${SPEAKER:-2.6}"
  on "$last" python3 -m scripts.train_pocket.speaker.embed --audio "$out/audio" --plan "$data/plan.jsonl.gz" \
    --weights "$out/speaker/speaker_encoder.safetensors" --out "$out/xvectors.npz"
}

train_codec() {
  on 0 python3 -m scripts.train_pocket.codec.train --audio "$out/audio" --out "$out/begun" \
    --minutes 1.2 --open 0.3 --alone 1
  several 0 "$last" scripts.train_pocket.codec.train --audio "$out/audio" --resume "$out/begun" --out "$out/codec" \
    --minutes "${CODEC:-10.5}" --open 0 --alone 0.06
}

encode() {
  for rank in $(seq 0 "$last"); do
    on "$rank" python3 -m scripts.train_pocket.codec.encode --audio "$out/audio" \
      --codec "$out/codec/codec.safetensors" --out "$out/codes" --rank "$rank" --world "$gpus" &
  done
  wait
}

part() { # part NAME COMMAND...: run a part of "again" unless it is done; writes OUT/NAME.log and OUT/done/NAME
  if [ -e "$out/done/$1" ]; then return; fi
  echo "$(date +%T) $1 begins"
  if "${@:2}" > "$out/$1.log" 2>&1; then touch "$out/done/$1"; fi
  echo "$(date +%T) $1 $([ -e "$out/done/$1" ] && echo "done" || echo FAILED): $(tail -n 1 "$out/$1.log")"
}

add_recordings() {
  python3 -m scripts.train_pocket.speed_perturbation --pieces "$PIECES" --data "$data" --out "$out/audio" --processes 8
}

continue_codec() {
  several 0 "$last" scripts.train_pocket.codec.train --audio "$out/audio" --resume "$data/first" --out "$out/codec" \
    --minutes "$CODEC" --open 0 --alone 0.03 --rate 4e-4 ${RECORDED:+--recorded "$RECORDED"}
}

encode_again() { # encode_again AUDIO CODES: encode with the codec of the checkpoint, or with that trained further
  local rank jobs=() codec=$data/first/codec.safetensors
  if [ -n "${CODEC:-}" ]; then codec=$out/codec/codec.safetensors; fi
  for rank in $(seq 0 "$last"); do
    on "$rank" python3 -m scripts.train_pocket.codec.encode --audio "$1" --codec "$codec" --out "$2" \
      --rank "$rank" --world "$gpus" &
    jobs+=($!)
  done
  for rank in "${jobs[@]}"; do wait "$rank" || return 1; done
}

degrade() {
  local rank jobs=()
  for rank in $(seq 0 $((4 * gpus - 1))); do
    on $((rank % gpus)) python3 -m scripts.train_pocket.degrade --audio "$out/audio" --out "$out/references" \
      --share "${DEGRADE:-0.3}" --rank "$rank" --world $((4 * gpus)) &
    jobs+=($!)
  done
  for rank in "${jobs[@]}"; do wait "$rank" || return 1; done
  encode_again "$out/references" "$out/reference_codes"
}

embed() {
  on "$last" python3 -m scripts.train_pocket.speaker.embed --audio "$out/audio" --plan "$data/plan.jsonl.gz" \
    --weights "$data/first/speaker_encoder.safetensors" --out "$out/xvectors.npz" --per-speaker 8
}

minutes_left() { # minutes for the talker from now on
  python3 -c "print(max(0.5, (${UNTIL:-0} - $(date +%s)) / 60) if ${UNTIL:-0} else ${TALKER:-11})"
}

continue_talker() { # until the minutes are over; a crashed run continues from its last state, on one GPU
  local end from=(--resume "$data/first" --again) left to=$last degraded=()
  end=$(python3 -c "print($(date +%s) + round(60 * $(minutes_left)))")
  if [ -e "$out/done/degrade" ]; then degraded=(--degraded-codes "$out/reference_codes"); fi
  for _ in 1 2 3; do
    left=$((end - $(date +%s)))
    if [ -e "$out/talker/state.pt" ]; then from=(--resume "$out/talker"); fi
    if [ "$left" -lt 30 ]; then return 1; fi
    if several 0 "$to" scripts.train_pocket.talker.train --data "$data" --codes "$out/codes" "${degraded[@]}" \
      --xvectors "$out/xvectors.npz" --out "$out/talker" --minutes "$(python3 -c "print($left / 60)")" "${from[@]}"; then
      return 0
    fi
    to=0
  done
  return 1
}

again() {
  mkdir -p "$out/done"
  if [ -n "${PIECES:-}" ]; then part recordings add_recordings & fi
  part teacher speak
  wait
  if [ -n "${PIECES:-}" ]; then [ -e "$out/done/recordings" ] || return 1; fi
  if [ -n "${CODEC:-}" ]; then
    part codec continue_codec
    [ -e "$out/done/codec" ] || return 1
  fi
  part embed embed &
  part degrade degrade &
  part codes encode_again "$out/audio" "$out/codes"
  wait
  part talker continue_talker
}

case $what in
again)
  again
  ;;
codec)
  speak 2>&1 | tee "$out/teacher.log"
  tell_speakers > "$out/speaker.log" 2>&1 &
  train_codec > "$out/codec.log" 2>&1
  wait
  encode 2>&1 | tee "$out/encode.log"
  ;;
talker)
  several 1 "$last" scripts.train_pocket.codec.train --audio "$out/audio" --resume "$out/codec" --frozen \
    --out "$out/code2wav" --minutes "${TALKER:-7}" --alone 0 --rate 2e-4 > "$out/code2wav.log" 2>&1 &
  on 0 python3 -m scripts.train_pocket.talker.train --data "$data" --codes "$out/codes" \
    --xvectors "$out/xvectors.npz" --out "$out/talker" --minutes "${TALKER:-7}" > "$out/talker.log" 2>&1
  wait
  ;;
*)
  sed -n '2,9s/^# //p' "$0"
  exit 2
  ;;
esac
