#!/bin/sh
# Gives the folder of runs to the user that trains ($OWNER), if it belongs to root: Docker creates a missing
# folder on the host as root. Runs as root with no capability but CHOWN, once, before a job.
#
# It changes only the folder itself, and only if it is empty or has runs: not /srv, passed by mistake.
# It never fails: the job reports a folder that is not writable, with the remedy.
set -u

folder=/app/runs

[ "$(stat -c %u "$folder")" = 0 ] || exit 0
# In an engine without root (user namespaces), root is the calling user, who already owns the folder.
read -r _ outside _ </proc/self/uid_map
[ "$outside" = 0 ] || exit 0
for entry in "$folder"/* "$folder"/.[!.]*; do
    [ ! -e "$entry" ] || [ -f "$entry/config.yaml" ] || exit 0
done
chown "$OWNER" "$folder" || exit 0
