#!/bin/sh
# Gives the folder of runs to the user that trains ($OWNER), where it is root's: Docker makes a folder that is
# missing on the host, and makes it as root. Runs as root with no capability but CHOWN, once, before a job.
#
# It changes the folder itself and nothing in it, and only if it is empty or holds runs: not /srv, given by mistake.
# It never fails: what cannot be written is for the job to report, which says what to do.
set -u

folder=/app/runs

[ "$(stat -c %u "$folder")" = 0 ] || exit 0
# In an engine without root (user namespaces), root is the user at the keyboard: the folder is theirs already.
read -r _ outside _ </proc/self/uid_map
[ "$outside" = 0 ] || exit 0
for entry in "$folder"/* "$folder"/.[!.]*; do
    [ ! -e "$entry" ] || [ -f "$entry/config.yaml" ] || exit 0
done
chown "$OWNER" "$folder" || exit 0
