-- purpose: the memory in use of some GPUs over the last while, the peak of each minute
-- parameters: gpu_uuids, mig_instances (lists that run in parallel), since, now
-- grain: GPU or MIG instance; lists by time
WITH wanted AS (
  SELECT unnest($gpu_uuids::VARCHAR[]) AS gpu_uuid, unnest($mig_instances::VARCHAR[]) AS mig_instance
), minute AS (
  SELECT gpu_uuid, mig_instance, time_bucket(INTERVAL 1 MINUTE, ts) AS minute,
         max(memory_used_bytes) AS used_bytes
  FROM gpu_sample JOIN wanted USING (gpu_uuid, mig_instance)
  WHERE ts > $since AND ts <= $now AND memory_used_bytes IS NOT NULL
  GROUP BY ALL
)
SELECT gpu_uuid, mig_instance, list(epoch(minute) ORDER BY minute) AS unix_seconds,
       list(used_bytes ORDER BY minute) AS used_bytes
FROM minute GROUP BY gpu_uuid, mig_instance
