-- purpose: the processes on one GPU or MIG instance at its newest scrape that lists any.
-- parameters: gpu, mig, as_of (UTC), look_back (seconds).
-- grain: process.
SELECT ts, pid, name, memory_used_bytes, kind
FROM gpu_process
WHERE gpu_uuid = $gpu AND mig_instance = $mig AND ts > $as_of - to_seconds($look_back) AND ts <= $as_of
QUALIFY ts = max(ts) OVER ()
ORDER BY memory_used_bytes DESC NULLS LAST, pid
