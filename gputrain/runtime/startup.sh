#!/bin/bash
# The startup script of every VM of a gputrain job, the same for all of them.
#
# It brings the job's code by its hash, hands the supervisor in it over to systemd as a unit of its own, and
# ends. What runs inside Google's script runner hears of no power button, and a line of 64 KiB breaks its output.

root=/var/lib/gputrain
instance="http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance"
patient=(--fail --silent --show-error --max-time 600 --retry 6 --retry-connrefused)

say() {
    echo "gputrain: $*" >&2
}

give_up() {
    say "$1, so this VM is powered off"
    while true; do
        poweroff
        sleep 10  # logind loses a word while the guest agent restarts it, right after a boot
    done
}

metadata() {
    curl "${patient[@]}" --noproxy '*' --header "Metadata-Flavor: Google" "$instance/$1"
}

if systemctl is-active --quiet gputrain; then  # a person ran this script once more
    say "this job runs here already"
    exit
fi
mkdir -p -m 700 $root && cd $root || give_up "$root cannot be made"
read -r url sha256 < <(metadata attributes/gputrain-code)
token=$(metadata service-accounts/default/token | sed 's/.*"access_token": *"\([^"]*\)".*/\1/')
curl "${patient[@]}" --output code.tar.gz --header @- "$url" <<< "Authorization: Bearer $token" ||
    give_up "its code cannot be fetched: is there Private Google Access, and may its account read the bucket"
echo "$sha256  code.tar.gz" | sha256sum --check --status ||
    give_up "the code in the bucket is not what was submitted"
tar --extract --file code.tar.gz .gputrain/agent.pyz || give_up "its code holds no gputrain"
rm code.tar.gz

words=()
while read -r property; do
    words+=(-p "${property%%  #*}")
done <<'PROPERTIES'
Description=gputrain
FailureAction=poweroff  # of a VM that may not delete itself once its supervisor has ended
KillMode=mixed  # SIGTERM to the supervisor alone, which lets the ranks save
TimeoutStopSec=110  # Google pulls the plug 120 s after the power button, of a Spot VM after 30
After=network-online.target docker.service  # so it ends before the network and containers do
LimitNOFILE=1048576
LimitMEMLOCK=infinity  # RDMA pins memory
TasksMax=infinity
OOMPolicy=continue  # a rank that ran out of memory is the agent's news, not the end of the unit
StandardOutput=journal+console
StandardError=journal+console
PROPERTIES
python=$(command -v python3) || give_up "there is no python3"
program="import sys; sys.path.insert(0, '$root/.gputrain/agent.pyz'); from gputrain.runtime.vm import main; main()"
systemd-run --unit=gputrain --collect --setenv=HOME=/root --working-directory=$root \
    ${GCE_METADATA_HOST:+--setenv=GCE_METADATA_HOST="$GCE_METADATA_HOST"} "${words[@]}" \
    -p "ExecStopPost=$python -c \"$program\" remove" "$python" -c "$program" || give_up "systemd takes no unit for it"
