# Above: $out, the folder of the run, and @train, the command of every process.

# The processes meet at the first node, where this runs: at a port that no other job has.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$("${train[0]}" - "$SLURM_JOB_ID" << 'PYTHON'
import socket, sys
port = 15000 + int(sys.argv[1]) % 15000
while True:
    try:
        socket.create_server(("", port)).close()
        break
    except OSError:
        port += 1
print(port)
PYTHON
)
export MASTER_ADDR MASTER_PORT LOCAL_WORLD_SIZE=$SLURM_NTASKS_PER_NODE
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SLURM_CPUS_PER_TASK}

newest() { printf '%s\n' "$out"/checkpoints/step-*.json | tail -n 1; }
before=$(newest)
rm -f "$out/state.json"

# At USR1 the time is nearly over: every process is asked to save and end. TERM (scancel, scontrol
# requeue, preemption) they have got from Slurm already; this only must not end before them.
is_interrupted=1
trap 'is_interrupted=1; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
trap 'is_interrupted=1' TERM
srun --export=ALL --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=none --kill-on-bad-exit=1 --wait=0 \
    bash -c 'export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; exec "$@"' \
    rank "${train[@]}" &
processes=$!
while [ "$is_interrupted" ]; do
    is_interrupted=
    wait "$processes"
    code=$?
done

# Stopped on request, and nobody has decided yet what becomes of the job: back into the queue, unless
# a whole job's time was not enough for one checkpoint. What failed stays failed.
if [ "$code" = 143 ] && grep -qs 'run the same command to continue' "$out/state.json" &&
    [ "$(squeue -h -j "$SLURM_JOB_ID" -o %T)" = RUNNING ]; then
    if [ "$(newest)" != "$before" ]; then
        exec scontrol requeue "$SLURM_JOB_ID"
    fi
    echo "fieldmark: not put back into the queue: this job has written no checkpoint. Give it more time ([slurm] time)." >&2
fi
exit "$code"
