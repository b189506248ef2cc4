-- purpose: the processes on GPUs that one target has shown
-- parameters: target
-- grain: process on a GPU or MIG instance, per scrape
SELECT ts, gpu_uuid, mig_instance, pid, name, memory_used_bytes, kind
FROM gpu_process
WHERE target = $target
ORDER BY ts, gpu_uuid, mig_instance, pid
