#!/bin/bash
#SBATCH --job-name=distprove
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-task=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#
# One job on the nodes that Slurm gives:  sbatch cluster/deploy/slurm.sh /shared/job.toml /shared/run
# A Ray cluster is started on them, with a token of its own, and ends with the job. Submitted again with the same run, it
# does what is missing: also after the time was up. distprove is in the PATH of every node; its exit code is this job's.
set -euo pipefail
umask 077

job=$1
run=$2

RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
port=$((20000 + SLURM_JOB_ID % 20000))
folder=/var/tmp/dp-$SLURM_JOB_ID # short: a socket's path has at most 107 bytes
on=(srun --nodes=1 --ntasks=1 --overlap) # and then --nodelist=NODE COMMAND
resources=(--num-cpus="$SLURM_CPUS_PER_TASK")

# Ray opens its own folder to everybody, so that it lies in one that is not.
srun --ntasks-per-node=1 --overlap mkdir -m 700 "$folder"
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; srun --ntasks-per-node=1 --overlap rm -rf "$folder"' EXIT

"${on[@]}" --nodelist="$head" ray start --head --block --node-ip-address="$head" --port="$port" --include-dashboard=false \
  --temp-dir="$folder/ray" --object-spilling-directory="$folder/spill" "${resources[@]}" &
until "${on[@]}" --nodelist="$head" ray status --address="$head:$port" >/dev/null 2>&1; do sleep 2; done
for node in "${nodes[@]:1}"; do
  "${on[@]}" --nodelist="$node" ray start --block --address="$head:$port" "${resources[@]}" &
done

# Beside this shell, which passes on that the time is nearly up: what is proven by then is kept.
prover="" ending=""
trap 'ending=1; [[ -z $prover ]] || kill -TERM "$prover"' TERM
"${on[@]}" --nodelist="$head" distprove prove "$job" --out "$run" --resume --address "$head:$port" &
prover=$!
[[ -z $ending ]] || kill -TERM "$prover"
while :; do
  code=0
  wait "$prover" || code=$?
  [[ -n $ending && $code -eq 143 ]] || break # the signal ended this wait, not what is waited for
  ending=""
done
distprove report "$run" --overwrite --metrics "$run/metrics.prom" || true
exit "$code"
