-- purpose: the memory ratio of some GPUs, reduced to steps: the trend beside an incident.
-- parameters: gpus (list of UUIDs), from_ts, to_ts (UTC), step (seconds).
-- grain: GPU or MIG instance, and step; the highest of each step.
SELECT
  gpu_uuid, mig_instance, time_bucket(to_seconds($step), ts) AS ts,
  max(memory_used_ratio) AS memory_used_ratio,
  min(memory_free_bytes) AS memory_free_bytes,
  max(memory_used_bytes) AS memory_used_bytes
FROM gpu_sample
WHERE gpu_uuid IN (SELECT unnest($gpus::VARCHAR[])) AND ts >= $from_ts AND ts <= $to_ts
GROUP BY ALL
ORDER BY gpu_uuid, mig_instance, ts
